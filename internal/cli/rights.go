package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/cloudstack"
	"github.com/cks-trueup/trueup/internal/guest"
	"github.com/cks-trueup/trueup/internal/kube"
)

func (a *app) rightsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rights",
		Short: "Print the least rights that trueup needs in one system",
		Long: `Print the least rights that trueup needs in one of the systems that it talks
to, made from the list of what this version of the program does there.
Connects to nothing and changes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.sudoersCommand(), a.rbacCommand(), a.cloudStackRoleCommand())
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

// defaultAccount is who gets the rights in Kubernetes where nobody is named.
const defaultAccount = kube.LeaseNamespace + "/trueup"

func (a *app) rbacCommand() *cobra.Command {
	var to kube.Subjects
	var look bool
	var method string
	c := &cobra.Command{
		Use:   "rbac",
		Short: "Print roles and bindings for the Kubernetes cluster",
		Long: `Print a manifest that gives exactly the rights that this version of trueup uses
in the Kubernetes cluster: a ClusterRole, Roles in kube-system and default, and
their bindings. Without a name they are for a service account of its own,
` + defaultAccount + `. A manifest names all who have the rights: applied
again with other names, it takes them from those who are not named any more.

With --method cold also what that method needs: it evicts pods.

With --guest-via pod also what that way into the nodes needs, in the namespace
of --guest-namespace. Whoever has that is root on every node, with --look-only
as well.`,
		Example: `  trueup rights rbac | kubectl apply -f -
  trueup rights rbac --look-only --group ops | kubectl apply -f -
  trueup rights rbac --guest-via pod | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(to.Users)+len(to.Groups)+len(to.ServiceAccounts) == 0 {
				to.ServiceAccounts = []string{defaultAccount}
			}
			further, err := a.podRights()
			if err != nil {
				return err
			}
			switch {
			case method != methodLive && method != methodCold:
				return usageErrorf("--method %s: it is live or cold", method)
			case method == methodCold && look:
				return usageErrorf("--method cold changes a cluster, and --look-only is for what changes nothing: choose one")
			case method == methodCold:
				further = append(further, kube.ColdRights()...)
			}
			manifest, err := kube.RBAC(to, !look, a.Version, further...)
			if err != nil {
				return withCode(ExitUsage, err)
			}
			_, err = a.Out.Write(manifest)
			return err
		},
	}
	c.Flags().StringArrayVar(&to.Users, "user", nil, "`user` who gets the rights; repeatable")
	c.Flags().StringArrayVar(&to.Groups, "group", nil, "`group` that gets the rights; repeatable")
	c.Flags().StringArrayVar(&to.ServiceAccounts, "service-account", nil, "`NAMESPACE/NAME` of a service account, which is made; repeatable")
	c.Flags().StringVar(&method, "method", methodLive, "with cold, also what that `method` needs")
	c.Flags().BoolVar(&look, "look-only", false, "only what commands need that change nothing")
	return c
}

func (a *app) cloudStackRoleCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "cloudstack-role",
		Short: "Print the rules of a role for CloudStack",
		Long: `Print the rules of a CloudStack role that may use exactly the API commands of
this version of trueup, and no other: as the CSV file that CloudStack's web
interface takes at Roles, Import Role (choose the type User), or with -o cmk as
calls of CloudMonkey.`,
		Example: `  trueup rights cloudstack-role >trueup-role.csv
  trueup rights cloudstack-role -o cmk | ROLE=id-of-the-role sh -e`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := cloudstack.RoleCSV()
			if output == "cmk" {
				text = cloudstack.RoleCalls(a.Version)
			}
			_, err := fmt.Fprint(a.Out, text)
			return err
		},
	}
	addOutput(c, &output, "csv", "cmk")
	return c
}
