package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	title string
	// spare says in which turn the column is left out where the table is wider than the screen: 1 first, 0 never.
	spare int
}

// columnGap is the number of spaces between two columns.
const columnGap = 2

// printTable prints rows under a heading. Where a terminal is too narrow, spare columns are left out; more says how to see them.
func (a *app) printTable(columns []column, rows [][]string, more string) error {
	var left []string
	for s := a.screen(a.Out); s.is && tableWidth(columns, rows) > s.columns; {
		i := sparest(columns)
		if i < 0 {
			break
		}
		left = append(left, columns[i].title)
		columns, rows = without(columns, rows, i)
	}
	if err := writeTable(a.Out, columns, rows); err != nil || left == nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "(left out to fit the screen: %s%s)\n", strings.Join(left, ", "), more)
	return err
}

func writeTable(w io.Writer, columns []column, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, columnGap, ' ', 0)
	heading := make([]string, 0, len(columns))
	for _, c := range columns {
		heading = append(heading, c.title)
	}
	fmt.Fprintln(t, strings.Join(heading, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = oneLine(cell)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

func tableWidth(columns []column, rows [][]string) int {
	width := columnGap * (len(columns) - 1)
	for i, c := range columns {
		widest := utf8.RuneCountInString(c.title)
		for _, row := range rows {
			widest = max(widest, utf8.RuneCountInString(row[i]))
		}
		width += widest
	}
	return width
}

// sparest is the index of the column that is left out first, -1 if none may be.
func sparest(columns []column) int {
	found := -1
	for i, c := range columns {
		if c.spare > 0 && (found < 0 || c.spare < columns[found].spare) {
			found = i
		}
	}
	return found
}

func without(columns []column, rows [][]string, i int) ([]column, [][]string) {
	out := make([][]string, 0, len(rows))
	for _, row := range rows {
		out = append(out, slices.Delete(slices.Clone(row), i, i+1))
	}
	return slices.Delete(slices.Clone(columns), i, i+1), out
}
