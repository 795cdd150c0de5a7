package training

// Setting is what differs between the two artefacts.
type Setting struct {
	Name string
	// Restart is the cost in seconds of every change of allocation, for all kinds;
	// 0: each kind's own.
	Restart int64
	// Slowdown says that kinds run slower than their profiles, by a factor each.
	Slowdown bool
	// ByShape bounds the batch on a GPU by what was measured on the shape at hand,
	// instead of on any.
	ByShape bool
	// Beforehand says that the throughput of one GPU of each model is known before a job
	// ran, which Sia calls its bootstrap.
	Beforehand bool
}

// PolluxSetting is that of the Pollux artefact.
func PolluxSetting() Setting { return Setting{Name: "pollux", Restart: 30} }

// SiaSetting is that of the Sia artefact.
func SiaSetting() Setting {
	return Setting{Name: "sia", Slowdown: true, ByShape: true, Beforehand: true}
}

// fact is what the artefacts state of a kind outside its tables.
type fact struct {
	name     string
	epochs   int
	restart  int64   // seconds, Sia
	slowdown float64 // Sia
	maxLocal int     // largest batch on a GPU, Pollux; 0: as measured
}

// facts lists the kinds in the order in which they are shown.
func facts() []fact {
	return []fact{
		{"cifar10", 100, 50, 1.8, 0},
		{"ncf", 10, 15, 1.5, 0},
		{"bert", 2, 120, 1.2, 0},
		{"deepspeech2", 80, 25, 1.2, 0},
		{"yolov3", 50, 80, 1.2, 8},
		{"imagenet", 90, 250, 1.2, 0},
	}
}

// Names lists the kinds of training that are known.
func Names() []string {
	var names []string
	for _, f := range facts() {
		names = append(names, f.name)
	}
	return names
}
