package cli

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// apiVersion is the version of everything that -o json and -o yaml print. Fields are only ever added within it.
const apiVersion = rollout.Prefix + "/v1"

// header begins every document for machines.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func kind(name string) header { return header{APIVersion: apiVersion, Kind: name} }

// addOutput adds the -o flag with the formats that a command knows.
func addOutput(c *cobra.Command, into *string, formats ...string) {
	c.Flags().StringVarP(into, "output", "o", formats[0], "output `format`: "+strings.Join(formats, ", "))
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	check := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(formats, *into) {
			return usageErrorf("unknown output format %q: it is one of %s", *into, strings.Join(formats, ", "))
		}
		if check != nil {
			return check(c, args)
		}
		return nil
	}
}

// wideHint says how to see the columns that a narrow screen has no room for.
const wideHint = "; -o wide shows all"

// machine tells whether a format is for machines.
func machine(format string) bool { return format == "json" || format == "yaml" }

// printDocument prints a document as JSON or YAML.
func printDocument(w io.Writer, format string, document any) error {
	if format == "yaml" {
		b, err := yaml.Marshal(document)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

// inputError gives an unknown or ambiguous name the exit code of bad input.
func inputError(err error) error {
	if _, is := errors.AsType[*cloudstack.LookupError](err); is {
		return withCode(ExitUsage, err)
	}
	return err
}
