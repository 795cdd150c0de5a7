// Package web draws what a simulation found: Report writes one HTML file that
// needs no network, no server and no other file, so that it can be mailed,
// archived and printed.
//
// Give it the results of a run in the order they should be read; the first
// policy is the one the others are compared with. Equal input gives equal
// bytes: the page carries no clock and no random id.
//
//	results ─▶ studies (runs that may be compared) ─▶ sentence, table, reasons   as HTML
//	                                                └▶ charts, GPU map            as JSON, drawn by assets/*.js
//
// Numbers come from package meter and are only summarised here (mean and
// sample standard deviation over seeds). How they are measured is not decided
// here, and neither is where the file goes.
package web
