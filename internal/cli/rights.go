package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/guest"
)

func (a *app) rightsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rights",
		Short: "Print the least rights that trueup needs: sudoers",
		Long: `Print the least rights that trueup needs in one of the systems that it talks
to, made from the list of what this version of the program does there.
Connects to nothing and changes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.sudoersCommand())
	return c
}

func (a *app) sudoersCommand() *cobra.Command {
	var user string
	c := &cobra.Command{
		Use:   "sudoers",
		Short: "Print the sudoers file for the nodes",
		Long: `Print a sudoers file that lets the user run on a node, as root, exactly the
commands of this version of trueup, and nothing else. Put it on each node as
/etc/sudoers.d/trueup (mode 0440, no dot in the name), and take away what else
the user may do there. Write it anew after each upgrade of trueup: a node that
has the file of another version refuses the commands that have changed since.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := guest.Sudoers(user, a.Version)
			if err != nil {
				return withCode(ExitUsage, fmt.Errorf("--user: %w", err))
			}
			_, err = fmt.Fprint(a.Out, file)
			return err
		},
	}
	c.Flags().StringVar(&user, "user", loginUser, "`user` that trueup logs in as")
	return c
}
