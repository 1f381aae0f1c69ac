package config

import (
	"fmt"
	"strings"
	"testing"
)

// canary is as long as a key of CloudStack.
const canary = "CANARYaZ09-_bQ7wX2eR5tY8uI1oP4aS6dF3gH0jK9lZ2xC5vB8nM1qW4eR7tY0uI3oP6aS9dF2gH5jK8lZ1x"

// secretHolders are the places of secrets; %s is what somebody wrote there.
func secretHolders() []string {
	return []string{
		"endpoints: [{name: a, url: 'https://x', apiKey: %[1]s, secretKey: %[1]s, clusters: [{}]}]",
		least + "notices: [{name: x, webhook: {url: %[1]s, key: %[1]s}}]",
		least + "notices: [{name: x, slack: {url: %[1]s}}]",
		least + "notices: [{name: x, mail: {server: 'h:1', from: a@b, to: [a@b], user: u, password: %[1]s}}]",
	}
}

func FuzzParse(f *testing.F) {
	for _, form := range []string{canary, "{file: " + canary + "}", "{env: " + canary + "}", "{env: '-" + canary + "'}", "{" + canary + "}", "{" + canary + ": x}", "[" + canary + "]",
		"*" + canary, "&" + canary + " x", "!" + canary + " x", "{file: [" + canary + "]}", "'" + canary, "{file: ~" + canary + "}", "{fil: " + canary + "}", "{inline: " + canary + ", file: x}"} {
		for _, holder := range secretHolders() {
			f.Add(fmt.Sprintf(holder, form))
		}
	}
	f.Add("https://user:" + canary + "@host")
	f.Add("a: &a [*a]\nendpoints: *a")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse([]byte(text), "c.yaml", environment(nil))
		said := ""
		if err != nil {
			said = err.Error()
		}
		for _, w := range c.Warnings {
			said += w.String()
		}
		if strings.Contains(said, canary[:longestQuote+1]) {
			t.Errorf("%s\nis repeated in %s", text, said)
		}
	})
}

// A short password that stands where its place belongs isn't repeated either.
func TestShortSecretsAreNotRepeated(t *testing.T) {
	for _, form := range []string{"hunter2", "{file: ~hunter2}", "{hunter2}", "{hunter2: x}", "[hunter2]", "{env: '7hunter2'}", "{fil: hunter2}", "{file: [hunter2]}", "*hunter2"} {
		for _, holder := range secretHolders() {
			_, err := parse(t, fmt.Sprintf(holder, form))
			if err == nil {
				t.Errorf("%s in %s is taken", form, holder)
			} else if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s is repeated: %v", form, err)
			}
		}
	}
}
