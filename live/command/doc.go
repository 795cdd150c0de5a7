// Package command is the scheduler as a command: flags, logs, the server for
// health and metrics, and the turn-taking of several instances.
//
//	err := command.Scheduler().ExecuteContext(ctx)
//	os.Exit(usage.ExitCode(err))
//
// It is a package, so that a test or a benchmark can be the scheduler in a
// process of its own without a second program. Package command leaves deciding
// and acting to package kube.
package command
