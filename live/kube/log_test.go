package kube

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/headrace-dev/headrace/live/explain"
)

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex // guards out
	out strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *lines) count(what string) int { return strings.Count(l.text(), what) }

func nodeSupply(model string) explain.Supply { return explain.Supply{Name: model, GPUs: 1} }
