package compare

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The plot's measures, in pixels.
const (
	plotWidth, labelWidth, barHeight, barGap, top = 900, 150, 26, 14, 30
)

// colours of the phases: the machine's own are grey, the rest is not.
var colours = map[string]string{ //nolint:gochecknoglobals // never written
	"look": "#4c78a8", "ask CloudStack": "#72b7b2", "CloudStack's job": "#9d9d9d", "guest plugs": "#b8b8b8", "notice, restart": "#f58518",
	"kubelet's start": "#cfcfcf", "verify, give back": "#e45756", "end": "#b279a2",
}

// WritePlot draws where the time of a node goes: one bar per contender, one part per phase, the median of all nodes and rounds. Grey is the
// machine's own.
func WritePlot(w io.Writer, trials []Trial) error {
	of := byContender(trials)
	bars, longest := map[string][]Phase{}, 1.0
	for _, c := range Contenders() {
		bars[c.Name] = medianPhases(of[c.Name])
		longest = max(longest, sum(bars[c.Name]))
	}
	scale := (plotWidth - labelWidth - 60) / longest
	height := top + len(Contenders())*(barHeight+barGap) + 80
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="18">seconds per node, median; grey is the machine's own</text>`+"\n", labelWidth)
	for i, c := range Contenders() {
		drawBar(&b, c.Name, bars[c.Name], top+i*(barHeight+barGap), scale)
	}
	drawLegend(&b, bars, height-56)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func drawBar(b *strings.Builder, name string, phases []Phase, y int, scale float64) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-8, y+18, html.EscapeString(name))
	x := float64(labelWidth)
	for _, p := range phases {
		width := p.Took.Seconds() * scale
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %.1f s</title></rect>`+"\n", x, y, width, barHeight, colours[p.Name], html.EscapeString(p.Name), p.Took.Seconds())
		x += width
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d">%.1f</text>`+"\n", x+5, y+18, sum(phases))
}

func drawLegend(b *strings.Builder, bars map[string][]Phase, y int) {
	for _, c := range Contenders() {
		for i, p := range bars[c.Name] {
			x, line := labelWidth+(i%4)*180, y+(i/4)*24
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="14" height="14" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, line, colours[p.Name], x+20, line+12, html.EscapeString(p.Name))
		}
		if len(bars[c.Name]) > 0 {
			return
		}
	}
}

// medianPhases is, for each phase, the median of all nodes. They need not add up to the median of the whole.
func medianPhases(trials []Trial) (all []Phase) {
	values := map[string][]float64{}
	for _, t := range trials {
		for _, n := range t.Nodes {
			all = n.Phases
			for _, p := range n.Phases {
				values[p.Name] = append(values[p.Name], p.Took.Seconds())
			}
		}
	}
	all = append([]Phase(nil), all...)
	for i, p := range all {
		all[i].Took = ofSeconds(spreadOf(values[p.Name]).median)
	}
	return all
}

func sum(phases []Phase) (total float64) {
	for _, p := range phases {
		total += p.Took.Seconds()
	}
	return total
}
