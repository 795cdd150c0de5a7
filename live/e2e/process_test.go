package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headrace-dev/headrace/live/command"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/usage"
)

const (
	// schedulerProcess is the variable that makes this binary the scheduler.
	schedulerProcess = "HEADRACE_E2E_SCHEDULER"
	// tailLines is how much of a scheduler's log a failure shows.
	tailLines = 15
	// askWithin bounds one call of a scheduler's server.
	askWithin = 15 * time.Second
)

// beScheduler is the scheduler as its command is, until it is told to stop.
func beScheduler(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := command.Scheduler()
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "level=ERROR", err)
	}
	return usage.ExitCode(err)
}

// process is a scheduler in a process of its own.
type process struct {
	rig     *rig
	command *exec.Cmd
	address string
	ended   chan struct{} // closed when it has ended

	mu     sync.Mutex // guards the rest
	tail   []string
	faults []string // what it should never have logged
}

// start starts a scheduler that works through a kubeconfig, and waits until it
// serves its health. It is killed when the test ends.
func (r *rig) start(kubeconfig string, args ...string) *process {
	r.Helper()
	p := &process{rig: r, ended: make(chan struct{})}
	p.command = exec.Command(os.Args[0], append([]string{"--kubeconfig", kubeconfig, "--serve", "127.0.0.1:0", "--serve-ledger"}, args...)...)
	p.command.Env = append(os.Environ(), schedulerProcess+"=1", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=2")
	stderr, err := p.command.StderrPipe()
	r.ok(err)
	r.ok(p.command.Start())
	serving := make(chan string, 1)
	// Ends with the process.
	go p.follow(stderr, serving)
	r.Cleanup(p.kill)
	select {
	case p.address = <-serving:
	case <-p.ended:
		r.Fatalf("the scheduler ended before it served:\n%s", p.last())
	case <-time.After(patience):
		r.Fatalf("the scheduler does not serve:\n%s", p.last())
	}
	return p
}

// follow reads what the scheduler logs.
func (p *process) follow(log io.Reader, serving chan<- string) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		line := lines.Text()
		if _, address, found := strings.Cut(line, " address="); found && strings.Contains(line, "serving health") {
			serving <- address
		}
		p.mu.Lock()
		p.tail = append(p.tail, line)
		p.tail = p.tail[max(0, len(p.tail)-tailLines):]
		if strings.Contains(line, "ledger is not") || strings.Contains(line, "do not balance") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			p.faults = append(p.faults, line)
		}
		p.mu.Unlock()
	}
	_ = p.command.Wait()
	close(p.ended)
}

func (p *process) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

// kill ends the process at once, and fails the test if it complained about its
// books.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fault := range p.faults {
		p.rig.Errorf("the scheduler says: %s", fault)
	}
	p.faults = nil
}

// stop tells the process to stop, and returns its exit code.
func (p *process) stop() int {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	return p.exit()
}

// exit waits until the process ends by itself, and returns its exit code.
func (p *process) exit() int {
	p.rig.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.rig.Fatalf("the scheduler does not end:\n%s", p.last())
	}
	return p.command.ProcessState.ExitCode()
}

// ask reads a page of the scheduler's server.
func (p *process) ask(path string) (int, []byte, error) {
	c := http.Client{Timeout: askWithin}
	answer, err := c.Get("http://" + p.address + path)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

// good says whether a check of health or readiness passes.
func (p *process) good(path string) bool {
	code, _, err := p.ask(path)
	return err == nil && code == http.StatusOK
}

// ready waits until the scheduler has rebuilt its world.
func (p *process) ready() {
	p.rig.Helper()
	p.rig.eventually("the scheduler has rebuilt its world", func() string {
		select {
		case <-p.ended:
			p.rig.Fatalf("the scheduler ended:\n%s", p.last())
		default:
		}
		if p.good("/readyz") {
			return ""
		}
		return "not ready: " + p.last()
	})
}

// ledger returns what the scheduler believes.
func (p *process) ledger() (*kube.Ledger, error) {
	code, body, err := p.ask("/debug/ledger")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("%d: %s", code, body)
	}
	var l kube.Ledger
	return &l, json.Unmarshal(body, &l)
}

// metric returns the value of a metric without labels.
func (p *process) metric(name string) float64 {
	p.rig.Helper()
	_, body, err := p.ask("/metrics")
	p.rig.ok(err)
	for _, line := range strings.Split(string(body), "\n") {
		if value, found := strings.CutPrefix(line, name+" "); found {
			number, err := strconv.ParseFloat(value, 64)
			p.rig.ok(err)
			return number
		}
	}
	p.rig.Fatalf("no metric %s", name)
	return 0
}

// balanced fails when a self-audit has found a difference.
func (p *process) balanced() {
	p.rig.Helper()
	if n := p.metric("headrace_book_imbalances_total"); n != 0 {
		p.rig.Errorf("%v self-audits found a difference:\n%s", n, p.last())
	}
}
