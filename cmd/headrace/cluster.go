package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// liveName is the program that has the cluster verbs. It carries Kubernetes, so
// it is a module and a program of its own.
const liveName = "kubectl-headrace"

// progressEvery is how often a build says how far it is.
const progressEvery = 15 * time.Second

// clusterVerbs are the verbs that the live program has, with what they do.
func clusterVerbs() [][2]string {
	return [][2]string{
		{"up", "start a cluster with simulated GPU nodes, the scheduler and a workload"},
		{"down", "stop the cluster that up started"},
		{"explain", "say why a pod waits, or why it is where it is"},
		{"top", "show nodes, GPUs in use and what pods wait for"},
		{"queue", "list the waiting pods in the order of their turn"},
		{"whatif", "say when pods would start if they were submitted now, and who would pay"},
	}
}

// clusterCommands hand over to the live program, flags and all.
func clusterCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, verb := range clusterVerbs() {
		out = append(out, &cobra.Command{
			Use: verb[0], Short: verb[1], DisableFlagParsing: true,
			Long: fmt.Sprintf("%s.\nThe program %s does it: beside this one, on the PATH, or built from the\nsource tree that this is called in. %s %s --help shows its flags.",
				strings.ToUpper(verb[1][:1])+verb[1][1:], liveName, liveName, verb[0]),
			RunE: func(c *cobra.Command, args []string) error {
				path, err := liveProgram(c.ErrOrStderr())
				if err != nil {
					return err
				}
				// It takes the place of this process: signals and the terminal are its own.
				err = syscall.Exec(path, append([]string{liveName, c.Name()}, args...), os.Environ())
				return fmt.Errorf("run %s: %w", path, err)
			},
		})
	}
	return out
}

// liveProgram finds the live program, or builds it.
func liveProgram(progress io.Writer) (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), liveName); runnable(beside) {
			return beside, nil
		}
	}
	if path, err := exec.LookPath(liveName); err == nil {
		return path, nil
	}
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("look for the source tree: %w", err)
	}
	source, found := liveSource(folder)
	if !found {
		return "", fmt.Errorf("%s is neither beside this program nor on the PATH, and %s is not in a source tree of Headrace to build it from", liveName, folder)
	}
	return buildLive(source, progress)
}

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// liveSource returns the live module of the source tree that a folder lies in.
func liveSource(folder string) (string, bool) {
	for {
		mod, err := os.ReadFile(filepath.Join(folder, "live", "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/headrace-dev/headrace/live\n") {
			return filepath.Join(folder, "live"), true
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", false
		}
		folder = parent
	}
}

// buildLive builds the live program into the user's cache. Go builds only what
// has changed, so that a second time takes seconds.
func buildLive(source string, progress io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for %s: %w", liveName, err)
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", liveName, err)
	}
	target := filepath.Join(cache, "headrace", "bin", liveName)
	build := exec.Command("go", "build", "-v", "-ldflags", linkFlags(string(mod)), "-o", target, "./cmd/"+liveName)
	build.Dir = source
	said, err := build.StderrPipe()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", liveName, err)
	}
	if err := build.Start(); err != nil {
		return "", fmt.Errorf("build %s: %w", liveName, err)
	}
	other := followBuild(said, progress)
	if err := build.Wait(); err != nil {
		return "", fmt.Errorf("build %s: %w", liveName, errors.Join(append(other, err)...))
	}
	return target, nil
}

// followBuild reads what a build says until it ends, tells how far it is, and
// returns what is no package name.
func followBuild(said io.Reader, progress io.Writer) []error {
	lines := make(chan string)
	// Ends when the build ends.
	go func() {
		for s := bufio.NewScanner(said); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	var other []error
	started, packages := time.Now(), 0
	for {
		select {
		case line, open := <-lines:
			switch {
			case !open:
				return other
			case packagePath.MatchString(line):
				packages++
			case !strings.HasPrefix(line, "go: downloading"):
				other = append(other, errors.New(line))
			}
		case <-ticker.C:
			fmt.Fprintf(progress, "Kubernetes is being compiled, about 15 minutes the first time on two cores: %d packages in %v so far\n",
				packages, time.Since(started).Round(time.Second))
		}
	}
}

// packagePath is how a build names a package that it compiles.
var packagePath = regexp.MustCompile(`^[\w.~/-]+$`)

// linkFlags tell Kubernetes its version, which is the one that go.mod requires.
func linkFlags(mod string) string {
	m := regexp.MustCompile(`\sk8s\.io/kubernetes (v(\d+)\.(\d+)\S*)`).FindStringSubmatch(mod)
	if m == nil {
		return ""
	}
	const component, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
	return strings.Join([]string{
		"-X " + component + ".gitVersion=" + m[1], "-X " + component + ".gitMajor=" + m[2], "-X " + component + ".gitMinor=" + m[3],
		"-X " + client + ".gitVersion=" + m[1],
	}, " ")
}
