package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/server/config"
)

// defaultConfig is where packaging puts the configuration of trueup serve.
const defaultConfig = "/etc/trueup/trueup.yaml"

// configDocument is what config check prints for machines.
type configDocument struct {
	header

	File      string             `json:"file"`
	Problems  []problemDocument  `json:"problems"`
	Warnings  []problemDocument  `json:"warnings"`
	Endpoints []endpointDocument `json:"endpoints"`
	Channels  []channelDocument  `json:"channels"`
}

type problemDocument struct {
	Line int    `json:"line,omitempty"`
	Path string `json:"path,omitempty"`
	Text string `json:"text"`
}

type endpointDocument struct {
	Name  string         `json:"name"`
	Rules []ruleDocument `json:"rules"`
}

type ruleDocument struct {
	Clusters   string        `json:"clusters"` // in words
	Policy     config.Policy `json:"policy"`
	Paused     bool          `json:"paused"`
	DriftAfter string        `json:"driftAfter"`
	Windows    []string      `json:"windows"`
	// Open tells whether a change may begin now; Changes is when that changes, absent if never.
	Open    bool       `json:"open"`
	Changes *time.Time `json:"changes,omitempty"`
}

type channelDocument struct {
	Name  string   `json:"name"`
	Kinds []string `json:"kinds"`
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration of the server",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.configCheckCommand())
	return c
}

func (a *app) configCheckCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Read a configuration file, and say what is wrong in it",
		Long: `Read the configuration of the server, by default
` + defaultConfig + `, and print every problem as FILE:LINE: KEY: PROBLEM.
Nothing is asked over the network. The exit code is 2 if there is a problem.
Docs: docs/config.md.`,
		Example: `  trueup config check
  trueup config check packaging/trueup.yaml -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.checkConfig(first(append(args, defaultConfig)...), output)
		},
	}
	addOutput(c, &output, "text", "json")
	return c
}

func (a *app) checkConfig(file, output string) error {
	loaded, err := config.Load(file, a.Env)
	wrong := &config.Error{}
	if err != nil && !errors.As(err, &wrong) {
		return withCode(ExitUsage, err)
	}
	if machine(output) {
		err = printDocument(a.Out, output, configDocumentOf(file, loaded, wrong.Problems, a.clock.Now()))
	} else {
		err = printConfig(a.Out, file, loaded, wrong.Problems, a.clock.Now())
	}
	if n := len(wrong.Problems); err == nil && n > 0 {
		return usageErrorf("%s: %s; docs/config.md describes each key", file, plural(n, "problem"))
	}
	return err
}

func configDocumentOf(file string, c config.Config, wrong []config.Problem, now time.Time) configDocument {
	d := configDocument{header: kind("ConfigCheck"), File: file, Problems: problemDocuments(wrong), Warnings: problemDocuments(c.Warnings),
		Endpoints: []endpointDocument{}, Channels: []channelDocument{}}
	for _, e := range c.Endpoints {
		of := endpointDocument{Name: e.Name}
		for _, r := range e.Rules {
			of.Rules = append(of.Rules, ruleDocumentOf(r, now))
		}
		d.Endpoints = append(d.Endpoints, of)
	}
	for _, channel := range c.Notices {
		of := channelDocument{Name: channel.Name}
		for _, k := range channel.Kinds {
			of.Kinds = append(of.Kinds, string(k))
		}
		d.Channels = append(d.Channels, of)
	}
	return d
}

func problemDocuments(problems []config.Problem) []problemDocument {
	out := []problemDocument{}
	for _, p := range problems {
		out = append(out, problemDocument{p.Line, p.Path, p.Text})
	}
	return out
}

func ruleDocumentOf(r config.Rule, now time.Time) ruleDocument {
	d := ruleDocument{Clusters: clustersOf(r), Policy: r.Policy, Paused: r.Paused, DriftAfter: config.FormatDuration(r.DriftAfter), Windows: []string{}, Open: r.Windows.Open(now)}
	for _, w := range r.Windows {
		d.Windows = append(d.Windows, w.String())
	}
	if next := r.Windows.Next(now); !next.IsZero() {
		next = next.UTC()
		d.Changes = &next
	}
	return d
}

// clustersOf says in words which clusters a rule is for.
func clustersOf(r config.Rule) string {
	var parts []string
	for _, of := range []struct {
		name   string
		values []string
	}{{"names", r.Names}, {"ids", r.IDs}, {"projects", r.Projects}} {
		if len(of.values) > 0 {
			parts = append(parts, of.name+" "+strings.Join(of.values, ", "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		parts = append(parts, "label "+key+"="+r.Labels[key])
	}
	if len(parts) == 0 {
		return "every cluster"
	}
	return strings.Join(parts, " and ")
}

// printConfig prints what is wrong, or what the configuration says.
func printConfig(w io.Writer, file string, c config.Config, wrong []config.Problem, now time.Time) error {
	var b strings.Builder
	for _, p := range wrong {
		fmt.Fprintf(&b, "%s\n", oneLine(p.String()))
	}
	for _, p := range c.Warnings {
		p.Text = "warning: " + p.Text
		fmt.Fprintf(&b, "%s\n", oneLine(p.String()))
	}
	if len(wrong) == 0 {
		fmt.Fprintf(&b, "%s is fine.\n", file)
	}
	for _, e := range c.Endpoints {
		fmt.Fprintf(&b, "\nEndpoint %s: the first rule that matches a cluster is its rule\n", e.Name)
		for i, r := range e.Rules {
			fmt.Fprintf(&b, "  %d. %s: %s\n", i+1, oneLine(clustersOf(r)), ruleText(ruleDocumentOf(r, now)))
		}
	}
	for _, channel := range c.Notices {
		fmt.Fprintf(&b, "\nNotices by %s: %s\n", channel.Name, strings.Trim(fmt.Sprint(channel.Kinds), "[]"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ruleText(d ruleDocument) string {
	text := fmt.Sprintf("%s, drift counts after %s", d.Policy, d.DriftAfter)
	if d.Paused {
		text += ", paused"
	}
	if len(d.Windows) == 0 {
		return text + ", at any time"
	}
	state := "closed now, opens"
	if d.Open {
		state = "open now, until"
	}
	when := "for ever"
	if d.Changes != nil {
		when = d.Changes.Format(time.RFC3339)
	}
	return fmt.Sprintf("%s, in %s (%s %s)", text, strings.Join(d.Windows, " or "), state, when)
}
