module github.com/headrace-dev/headrace

go 1.26
