// Command gen writes docs/gpu-catalogue.md from the catalogue. It is run by
// `go generate` in internal/catalogue.
package main

import (
	"fmt"
	"os"

	"github.com/headrace-dev/headrace/internal/catalogue"
)

// target is relative to internal/catalogue, where go generate runs.
const target = "../../docs/gpu-catalogue.md"

func main() {
	if err := os.WriteFile(target, []byte(catalogue.Markdown()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
