package manifest_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// root is the directory that the image is built from.
const root = "../.."

// The Containerfile names what there is: modules, the program, and a binary that
// the last stage starts as nobody. Whether it builds, only a build can tell.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var build, from, built, binary, user, entry string
	for _, line := range strings.Split(string(text), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		words := strings.Fields(rest)
		switch word {
		case "", "#", "WORKDIR", "EXPOSE":
		case "FROM":
			if build == "" {
				build = words[0]
			}
			from = words[0]
		case "COPY":
			if source, found := strings.CutPrefix(words[0], "--from=build"); found && source == "" {
				built, binary = words[1], words[2]
				continue
			}
			for _, source := range words[:len(words)-1] {
				if _, err := os.Stat(filepath.Join(root, source)); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		case "RUN":
			if strings.Contains(rest, " build ") {
				checkBuild(t, words, &built)
			}
		case "USER":
			user = rest
		case "ENTRYPOINT":
			entry = rest
		default:
			t.Errorf("%q: this test does not know the instruction", line)
		}
	}
	mod, err := os.ReadFile(filepath.Join(root, "live", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "mod download")
	for _, line := range strings.Split(string(mod), "\n") {
		if _, dir, local := strings.Cut(line, "=> .."); local {
			if want := strings.TrimPrefix(path.Join(dir, "go.mod"), "/"); !strings.Contains(before, " "+want+" ") {
				t.Errorf("modules are downloaded before %s is there, which live/go.mod names", want)
			}
		}
	}
	_, asked, _ := strings.Cut(string(mod), "\ngo ")
	if version, found := strings.CutPrefix(build, "docker.io/library/golang:"); !found || !strings.HasPrefix(asked, version+".") {
		t.Errorf("it builds with %s, live/go.mod asks for Go %.6s", build, asked)
	}
	if from != "scratch" {
		t.Errorf("the last stage is from %s, want scratch", from)
	}
	if built == "" || entry != fmt.Sprintf("[%q]", binary) {
		t.Errorf("the entry point is %s, the binary is copied from %q to %q", entry, built, binary)
	}
	s := onlyPod(t)
	if want := fmt.Sprintf("%d:%d", *s.RunAsUser, *s.RunAsGroup); user != want || *s.RunAsUser == 0 {
		t.Errorf("the image runs as %s, the chart as %s", user, want)
	}
}

// checkBuild checks one go build: a program of the live module, linked statically.
func checkBuild(t *testing.T, words []string, built *string) {
	t.Helper()
	line := strings.Join(words, " ")
	if !strings.HasPrefix(line, "CGO_ENABLED=0 go -C live build ") {
		t.Errorf("RUN %s: want a static build of the live module", line)
	}
	for i, w := range words {
		if w == "-o" {
			*built = words[i+1]
		}
	}
	program := words[len(words)-1]
	if err := mainPackage(filepath.Join(root, "live", program)); err != nil {
		t.Errorf("RUN %s: %s is no program: %v", line, program, err)
	}
	if path.Base(program) != path.Base(*built) {
		t.Errorf("RUN %s: the program %s becomes %s", line, program, *built)
	}
}

// mainPackage says what is wrong with a directory that should hold a program.
func mainPackage(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no Go files in %s", dir)
	}
	file, err := parser.ParseFile(token.NewFileSet(), files[0], nil, parser.PackageClauseOnly)
	if err == nil && file.Name.Name != "main" {
		err = fmt.Errorf("%s is of package %s", files[0], file.Name.Name)
	}
	return err
}

// ids are the user and group of the chart's pods.
type ids struct{ RunAsUser, RunAsGroup *int64 }

func onlyPod(t *testing.T) ids {
	t.Helper()
	d := only[appsv1.Deployment](t, render(t, nil), "Deployment")
	if c := d.Spec.Template.Spec.Containers[0].Command; len(c) > 0 {
		t.Errorf("the chart starts %q instead of the image's entry point", c)
	}
	s := d.Spec.Template.Spec.SecurityContext
	return ids{RunAsUser: s.RunAsUser, RunAsGroup: s.RunAsGroup}
}
