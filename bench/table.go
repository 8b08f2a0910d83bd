package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// chartWidth is how many characters the longest line of a chart has.
const chartWidth = 40

// print writes the charts, then the table of everything.
func (r *report) print(w io.Writer) {
	for _, s := range r.Sections {
		for i := range s.Charts {
			s.Charts[i].print(w)
		}
	}
	cells := [][]string{{"metric", "measured", "bar", "verdict"}}
	for _, s := range r.Sections {
		for i := range s.Rows {
			cells = append(cells, s.Rows[i].cells(s.Name))
		}
		if s.Error != "" {
			cells = append(cells, []string{s.Name, brief(s.Error), "measured to its end", missed})
		}
	}
	printTable(w, cells)
}

// brief shortens an error to what fits a cell; progress has shown all of it.
func brief(text string) string {
	const most = 60
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// cells are the columns of the table.
func (r *row) cells(section string) []string {
	measured := format(r.Value, r.Unit)
	if r.Note != "" {
		measured += " (" + r.Note + ")"
	}
	bar := reported
	if l := r.Limit; l != nil {
		bar = l.Relation + " " + format(l.Bound, r.Unit)
		if !l.Hard {
			bar += ", aim"
		}
	}
	return []string{section + ": " + r.Metric, measured, bar, r.verdict()}
}

// printTable writes rows of cells in columns, with a rule below the first row.
func printTable(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, cells := range rows {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(w, " │ ")
			}
			if i == len(cells)-1 {
				fmt.Fprint(w, cell)
				break
			}
			fmt.Fprint(w, cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		fmt.Fprintln(w)
		if n == 0 {
			for i, width := range widths {
				if i > 0 {
					fmt.Fprint(w, "─┼─")
				}
				fmt.Fprint(w, strings.Repeat("─", width))
			}
			fmt.Fprintln(w)
		}
	}
}

// print draws the chart: one horizontal bar for each line.
func (c *chart) print(w io.Writer) {
	var most float64
	var labels, values int
	shown := make([]string, len(c.Lines))
	for i, l := range c.Lines {
		shown[i] = format(l.Value, "")
		most = max(most, l.Value)
		labels = max(labels, utf8.RuneCountInString(l.Label))
		values = max(values, utf8.RuneCountInString(shown[i]))
	}
	fmt.Fprintf(w, "%s, %s\n", c.Title, c.Unit)
	for i, l := range c.Lines {
		fmt.Fprintf(w, "  %-*s %*s %s\n", labels, l.Label, values, shown[i], barOf(l.Value, most))
	}
	fmt.Fprintln(w)
}

// barOf draws value as a share of most, to an eighth of a character.
func barOf(value, most float64) string {
	if most <= 0 || value <= 0 {
		return ""
	}
	eighths := int(math.Round(value / most * chartWidth * 8))
	bar := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		bar += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return bar
}

// format writes a number with three digits that matter, or all of a whole one,
// and its unit.
func format(v float64, unit string) string {
	digits := 2
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		digits = 0
	case a >= 10:
		digits = 1
	}
	text := group(strconv.FormatFloat(v, 'f', digits, 64))
	if unit != "" {
		text += " " + unit
	}
	return text
}

// group puts a comma between thousands.
func group(number string) string {
	whole, fraction, _ := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}
