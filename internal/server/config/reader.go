package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// reader walks the document and collects what is wrong.
type reader struct {
	file     string
	env      func(string) (string, bool)
	problems []Problem
	warnings []Problem
	files    []named // to be looked at by Load
	visited  int
}

// named is a file that the configuration names.
type named struct {
	at     value
	path   string
	secret bool
}

// value is one value of the document and where it stands.
type value struct {
	r    *reader
	node *yaml.Node
	path string
}

// mostValues bounds the walk: aliases of aliases could make a small file endless.
const mostValues = 200_000

func (v value) problem(format string, args ...any) {
	v.r.problems = append(v.r.problems, Problem{File: v.r.file, Line: v.node.Line, Path: v.path, Text: fmt.Sprintf(format, args...)})
}

func (v value) warn(format string, args ...any) {
	v.r.warnings = append(v.r.warnings, Problem{File: v.r.file, Line: v.node.Line, Path: v.path, Text: fmt.Sprintf(format, args...)})
}

// at is another value that is reached from this one.
func (v value) at(node *yaml.Node, path string) value {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return value{v.r, node, path}
}

func (v value) child(key string, node *yaml.Node) value {
	if v.path != "" {
		key = v.path + "." + key
	}
	return v.at(node, key)
}

// line is the syntax error's place in the words of the YAML package.
var line = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// document reads the only document of the file; false if there is none that can be walked.
func (r *reader) document(data []byte) (value, bool) {
	whole := value{r: r, node: &yaml.Node{}}
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, second yaml.Node
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		whole.problem("it is empty: at least endpoints must be given")
		return whole, false
	case err != nil:
		r.syntax(whole, err)
		return whole, false
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		whole.at(&second, "").problem("a second document begins here: the configuration is one document")
	case !errors.Is(err, io.EOF):
		r.syntax(whole, err)
	}
	if len(doc.Content) == 0 {
		whole.problem("it is empty: at least endpoints must be given")
		return whole, false
	}
	return whole.at(doc.Content[0], ""), true
}

// syntax tells of YAML that can't be read, without what the YAML package repeats of it.
func (r *reader) syntax(whole value, err error) {
	text, node := err.Error(), &yaml.Node{}
	if at := line.FindStringSubmatch(text); at != nil {
		node.Line, _ = strconv.Atoi(at[1])
		text = text[len(at[0]):]
	}
	text, _, quotes := strings.Cut(strings.TrimPrefix(text, "yaml: "), "'")
	if quotes {
		text += "…"
	}
	whole.at(node, "").problem("this is no YAML: %s (the mistake may stand in the line before)", strings.TrimSpace(text))
}

// kind names what a value is, for people.
func (v value) kind() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch v.node.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	case "!!str":
		return "text"
	}
	return "something else"
}

// keys are what a mapping may hold: what to do with the value of each.
type keys map[string]func(value)

func (k keys) names() []string {
	var names []string
	for name := range k {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// mapping hands each key's value to its reader, and returns the values by key. Unknown keys and keys that stand twice are problems.
func (v value) mapping(known keys) map[string]value {
	found := map[string]value{}
	for _, e := range v.entries() {
		if first, twice := found[e.key]; twice {
			e.name.problem("stands twice; the first is in line %d", first.node.Line)
			continue
		}
		read, is := known[e.key]
		if !is {
			e.name.unknown(e.key, known.names())
			continue
		}
		found[e.key] = e.value
		if e.value.node.ShortTag() == "!!null" && e.value.node.Kind == yaml.ScalarNode {
			e.value.problem("has no value: give one, or leave the key out")
			continue
		}
		read(e.value)
	}
	return found
}

// unknown tells of a key that is not known. It is repeated only if it looks like one.
func (v value) unknown(key string, names []string) {
	switch {
	case key == "<<":
		v.problem("merging (<<) is not known here; an alias of a whole value (*name) is")
	case len(key) > longestQuote || !plainWord.MatchString(key):
		v.path = strings.TrimSuffix(strings.TrimSuffix(v.path, key), ".")
		v.problem("a key that is not known; known here: %s", strings.Join(names, ", "))
	default:
		v.problem("unknown key; %s", didYouMean(key, names))
	}
}

// entry is one key with its value. Problems of the key stand at name.
type entry struct {
	key         string
	name, value value
}

// entries are the keys and values of a mapping; none, with a problem, if it is none.
func (v value) entries() (out []entry) {
	if !v.visit() {
		return nil
	}
	if v.node.Kind != yaml.MappingNode {
		v.problem("expected keys with values, found %s", v.kind())
		return nil
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.at(v.node.Content[i], v.path)
		if key.node.Kind != yaml.ScalarNode {
			key.problem("expected a key, found %s", key.kind())
			continue
		}
		name := v.child(key.node.Value, v.node.Content[i])
		out = append(out, entry{key.node.Value, name, v.child(key.node.Value, v.node.Content[i+1])})
	}
	return out
}

// list hands each element to its reader.
func (v value) list(read func(i int, element value)) {
	if !v.visit() {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.problem("expected a list, found %s", v.kind())
		return
	}
	for i, node := range v.node.Content {
		read(i, v.at(node, fmt.Sprintf("%s[%d]", v.path, i)))
	}
}

// visit counts the values that have several below them, and ends a walk without end.
func (v value) visit() bool {
	v.r.visited++
	if v.r.visited == mostValues {
		v.problem("there are too many values, or aliases that repeat each other")
	}
	return v.r.visited < mostValues
}

// scalar is the text of a value with one of these tags; false, with a problem, if it is none.
func (v value) scalar(expected string, tags ...string) (string, bool) {
	if v.node.Kind != yaml.ScalarNode || !slices.Contains(tags, v.node.ShortTag()) {
		v.problem("expected %s, found %s", expected, v.kind())
		return "", false
	}
	return v.node.Value, true
}

// text reads text that is not empty.
func (v value) text(into *string) bool {
	expected := "text"
	if v.node.Kind == yaml.ScalarNode {
		expected = "text (put it in quotes)"
	}
	text, ok := v.scalar(expected, "!!str")
	if ok && strings.TrimSpace(text) == "" {
		v.problem("is empty: give a value, or leave the key out")
		return false
	}
	if ok && strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		v.problem("has signs in it that can't be printed")
		return false
	}
	if ok {
		*into = text
	}
	return ok
}

func (v value) boolean(into *bool) {
	if text, ok := v.scalar("true or false", "!!bool"); ok {
		*into = strings.EqualFold(text, "true")
	}
}

// whole reads a whole number within bounds.
func (v value) whole(into *int, least, most int) {
	text, ok := v.scalar("a whole number", "!!int")
	if !ok {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		v.problem("%s: expected a whole number from %d to %d", quote(text), least, most)
		return
	}
	*into = n
}

func (v value) number(into *float64, least, most float64) {
	text, ok := v.scalar("a number", "!!int", "!!float")
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < least || n > most {
		v.problem("%s: expected a number from %g to %g", quote(text), least, most)
		return
	}
	*into = n
}

// word reads one of a few words.
func (v value) word(into *string, words ...string) {
	var text string
	if !v.text(&text) {
		return
	}
	if !slices.Contains(words, text) {
		v.problem("%s: expected one of %s%s", quote(text), strings.Join(words, ", "), meant(text, words))
		return
	}
	*into = text
}

func meant(text string, words []string) string {
	if word := near(text, words); word != "" {
		return "; did you mean " + word + "?"
	}
	return ""
}

// duration reads a duration within bounds.
func (v value) duration(into *time.Duration, least, most time.Duration) {
	if v.node.Kind == yaml.ScalarNode && (v.node.ShortTag() == "!!int" || v.node.ShortTag() == "!!float") {
		v.problem("%s has no unit: write it like 90s, 2m, 36h or 90d", quote(v.node.Value))
		return
	}
	var text string
	if !v.text(&text) {
		return
	}
	d, err := parseDuration(text)
	switch {
	case err != nil:
		v.problem("%s is no duration: write it like 90s, 2m, 1h30m, 36h or 90d", quote(text))
	case d < least || d > most:
		v.problem("%s: expected a duration from %s to %s", quote(text), FormatDuration(least), FormatDuration(most))
	default:
		*into = d
	}
}

// texts reads a list of texts that is not empty.
func (v value) texts(into *[]string, check func(value, string)) {
	v.list(func(_ int, e value) {
		var text string
		if e.text(&text) {
			if slices.Contains(*into, text) {
				e.problem("stands twice in the list")
			}
			check(e, text)
			*into = append(*into, text)
		}
	})
	if v.node.Kind == yaml.SequenceNode && len(v.node.Content) == 0 {
		v.problem("is an empty list: give a value, or leave the key out")
	}
}
