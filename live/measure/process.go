package measure

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// killAfter is how long a process is waited for before it is killed.
	killAfter = 8 * time.Second
	// ticksPerSecond is the unit of CPU time in /proc: 100 on every Linux, whatever
	// the kernel's own tick.
	ticksPerSecond = 100
	// sampleEvery is how often the memory of a process is looked at.
	sampleEvery = 200 * time.Millisecond
	// lastWords is how much is shown of the log of a process that failed.
	lastWords = 2 << 10
)

// process is a part of a measurement in a process of its own.
type process struct {
	command *exec.Cmd
	input   io.Closer
	log     string
	done    chan struct{}
	err     error // how it ended; to be read after done
	peak    atomic.Int64
}

// start starts this binary in a role. What it writes goes to a file; stdout,
// if not nil, gets its standard output.
func start(r role, dir string, stdout io.Writer, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{command: exec.Command(self, args...), log: filepath.Join(dir, string(r)+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", r, err)
	}
	defer log.Close()
	p.command.Env = append(os.Environ(), roleVariable+"="+string(r))
	p.command.Stderr, p.command.Stdout = log, log
	if stdout != nil {
		p.command.Stdout = stdout
	}
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", r, err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", r, err)
	}
	// Ends with the process.
	go func() {
		p.err = fmt.Errorf("%s ended: %w", r, cmpErr(p.command.Wait(), errors.New("by itself")))
		close(p.done)
	}()
	go p.sample() // ends with the process
	return p, nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// endedError says that a process has ended by itself.
type endedError struct{ error }

// failure returns why a process that has ended by itself did so.
func (p *process) failure() error {
	<-p.done
	text, err := os.ReadFile(p.log)
	if err != nil {
		return endedError{p.err}
	}
	text = text[max(0, len(text)-lastWords):]
	return endedError{fmt.Errorf("%w: %s", p.err, strings.TrimSpace(string(text)))}
}

// stop ends the process and waits until it has gone.
func (p *process) stop() {
	p.input.Close()
	select {
	case <-p.done:
	case <-time.After(killAfter):
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// cpu returns the CPU time of all its threads so far, in user and kernel mode;
// 0 where /proc does not tell.
func (p *process) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	// The second field is the name, which may hold blanks; user and system time are
	// fields 14 and 15, so 11 and 12 after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseInt(fields[user], 10, 64)
	s, _ := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * time.Second / ticksPerSecond
}

// sample notes the most memory that the process was seen with.
func (p *process) sample() {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		if now := p.resident(); now > p.peak.Load() {
			p.peak.Store(now)
		}
		select {
		case <-p.done:
			return
		case <-ticker.C:
		}
	}
}

// resident returns the bytes that the process holds in memory; 0 where /proc
// does not tell.
func (p *process) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// forgetPeak begins a new observation of the memory.
func (p *process) forgetPeak() { p.peak.Store(0) }
