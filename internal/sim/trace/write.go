package trace

import (
	"bufio"
	"encoding/csv"
	"io"
)

// Write writes a workload as JSON lines, one line for each node, queue and pod. Read
// gives back an equal workload.
func Write(w io.Writer, load Workload) error {
	out := bufio.NewWriter(w)
	h := header{version: formatVersion, name: load.Name, timed: load.Timed, warmUp: load.WarmUp}
	writeRecord(out, "", headerFields(), &h)
	nodes, queues, pods := nodeFields(), queueFields(), podFields()
	for i := range load.Nodes {
		writeRecord(out, "node", nodes, &load.Nodes[i])
	}
	for i := range load.Queues {
		writeRecord(out, "queue", queues, &load.Queues[i])
	}
	for i := range load.Pods {
		writeRecord(out, "pod", pods, &load.Pods[i])
	}
	return out.Flush() // Returns the first error of the writes before it.
}

func writeRecord[T any](out *bufio.Writer, key string, fields []field[T], x *T) {
	if key != "" {
		out.WriteString(`{"` + key + `":`)
	}
	separator := "{"
	for _, f := range fields {
		value := f.toJSON(x)
		if value == nil {
			if !f.required {
				continue
			}
			value = []byte("0") // A required name is never empty.
		}
		out.WriteString(separator + `"` + f.name + `":`)
		out.Write(value)
		separator = ","
	}
	out.WriteByte('}')
	if key != "" {
		out.WriteByte('}')
	}
	out.WriteByte('\n')
}

// WriteCSV writes a workload as the CSV files of its nodes and of its pods. They
// have no place for its name, its queues and its warm-up.
func WriteCSV(nodes, pods io.Writer, load Workload) error {
	if err := writeSheet(nodes, nodeFields(), load.Nodes); err != nil {
		return err
	}
	fields := podFields()
	if !load.Timed {
		// Without the times the file reads as what it is.
		kept := fields[:0]
		for _, f := range fields {
			if f.name != "arrival_us" && f.name != "duration_us" {
				kept = append(kept, f)
			}
		}
		fields = kept
	}
	return writeSheet(pods, fields, load.Pods)
}

func writeSheet[T any](w io.Writer, fields []field[T], rows []T) error {
	out := csv.NewWriter(w)
	cells := make([]string, len(fields))
	for i, f := range fields {
		cells[i] = f.name
	}
	if err := out.Write(cells); err != nil {
		return err
	}
	for r := range rows {
		for i, f := range fields {
			cells[i] = f.toText(&rows[r])
			if cells[i] == "" && f.required {
				cells[i] = "0"
			}
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
