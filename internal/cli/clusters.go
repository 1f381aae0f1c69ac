package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/cloudstack"
)

type clusterList struct {
	header

	Items []cloudstack.Cluster `json:"items"`
}

func (a *app) clustersCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "clusters",
		Short: "List the CKS clusters that the account can see",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.cloudStack()
			if err != nil {
				return err
			}
			defer client.Close()
			clusters, err := client.Clusters(c.Context(), cloudstack.ClusterFilter{})
			if err != nil {
				return err
			}
			if machine(output) {
				return printDocument(a.Out, output, clusterList{kind("ClusterList"), clusters})
			}
			return a.printClusters(clusters, output == "wide")
		},
	}
	addOutput(c, &output, "table", "wide", "json", "yaml")
	return c
}

func (a *app) printClusters(clusters []cloudstack.Cluster, wide bool) error {
	if len(clusters) == 0 {
		fmt.Fprintln(a.Err, "No CKS cluster is visible to this account.")
		return nil
	}
	columns := []column{{"NAME", 0}, {"STATE", 0}, {"TYPE", 1}, {"KUBERNETES", 2}, {"CONTROL", 0}, {"WORKER", 0}, {"ETCD", 3}}
	if wide {
		columns = append(columns, column{"ZONE", 0}, column{"ACCOUNT", 0}, column{"KEYPAIR", 0}, column{"ID", 0})
	}
	rows := make([][]string, 0, len(clusters))
	for _, c := range clusters {
		row := []string{c.Name, c.State, c.Type, orDash(c.KubernetesVersion), fmt.Sprint(c.ControlNodes), fmt.Sprint(c.WorkerNodes), fmt.Sprint(c.EtcdNodes)}
		if wide {
			row = append(row, c.ZoneName, orDash(c.Account), orDash(c.KeyPair), c.ID)
		}
		rows = append(rows, row)
	}
	if wide {
		return writeTable(a.Out, columns, rows)
	}
	return a.printTable(columns, rows, wideHint)
}
