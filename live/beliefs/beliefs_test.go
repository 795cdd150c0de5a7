package beliefs_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/beliefs"
)

func some(n int) *beliefs.Beliefs {
	b := &beliefs.Beliefs{At: 5_000_000, Next: 40, Left: 3, Fill: []beliefs.Price{{Milli: 470, Price: 500.25}}}
	for i := range n % 7 {
		b.Epoch = 4_000_000
		b.Queues = append(b.Queues, beliefs.Queue{Name: fmt.Sprint("queue-", i), Usage: cluster.Usage{Hour: [cluster.HourEpochs]int64{7, int64(i)}, History: 9}})
	}
	for i := range n {
		b.Asks = append(b.Asks, beliefs.Ask{Kind: fmt.Sprint("kind-", i), Pods: int64(n - i), Request: world.Request{
			CPU: 4000, Extended: map[string]int64{"example.com/fpga": 1},
			Devices:  []world.DeviceRequest{{Count: 1, Milli: 470, Models: []string{"A100"}}},
			Selector: [][]world.Requirement{{{Key: "pool", Values: []string{"a"}}}},
		}})
	}
	return b
}

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	for _, n := range []int{0, 1, 50} {
		data, err := beliefs.Encode(some(n))
		if err != nil {
			t.Fatal(err)
		}
		got, err := beliefs.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(some(n), got); diff != "" {
			t.Errorf("%d requests (-want +got):\n%s", n, diff)
		}
	}
}

// What is damaged or of another version is refused, and the reason says which.
func TestDamagedBeliefs(t *testing.T) {
	data, err := beliefs.Encode(some(3))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[len(flipped)-5] ^= 1
	first := bytes.IndexByte(data, '\n') + 1
	bomb := func(text string) []byte { // sound checksum, no gzip
		sum := sha256.Sum256([]byte(text))
		return append(append(bytes.Clone(data[:first]), sum[:]...), text...)
	}
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"empty", nil, beliefs.ErrForm},
		{"another version", bytes.Replace(data, []byte("beliefs 1\n"), []byte("beliefs 2\n"), 1), beliefs.ErrForm},
		{"cut short", data[:first+10], beliefs.ErrForm},
		{"a bit flipped", flipped, beliefs.ErrChecksum},
		{"the end lost", data[:len(data)-1], beliefs.ErrChecksum},
		{"no gzip", bomb("hello"), beliefs.ErrForm},
	} {
		if got, err := beliefs.Decode(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

// However many requests there are, what is written stays below the limit and the
// most frequent are in it.
func TestEncodeStaysBelowTheLimit(t *testing.T) {
	b, r := some(30_000), rand.New(rand.NewSource(1))
	for i := range b.Asks {
		noise := make([]byte, 100) // does not compress
		r.Read(noise)
		b.Asks[i].Kind = fmt.Sprintf("%x", noise)
	}
	data, err := beliefs.Encode(b)
	if err != nil || len(data) > beliefs.MostBytes {
		t.Fatalf("%d bytes, %v; want at most %d", len(data), err, beliefs.MostBytes)
	}
	got, err := beliefs.Decode(data)
	if err != nil || len(got.Asks) < 1000 || got.Asks[0].Pods != 30_000 {
		t.Errorf("%d requests, %v; want many, the most frequent first", len(got.Asks), err)
	}
}

// FuzzDecode: no bytes make it panic, and what it reads it can write.
func FuzzDecode(f *testing.F) {
	data, err := beliefs.Encode(some(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("headrace-beliefs 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := beliefs.Decode(data)
		if err != nil {
			return
		}
		if _, err := beliefs.Encode(b); err != nil {
			t.Errorf("read and not written: %v", err)
		}
	})
}

// FuzzText: no text in a sound frame makes it panic.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"at":1,"next":2,"left":0,"asks":[{"request":{"CPU":1},"pods":3}],"fill":[{"milli":1,"price":1e300}]}`))
	f.Add([]byte(`{"asks":[{"request":{"Devices":[{"Count":-1}]},"pods":-3}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = w.Write(text)
		_ = w.Close()
		sum := sha256.Sum256(zipped.Bytes())
		if _, err := beliefs.Decode(append(append([]byte("headrace-beliefs 1\n"), sum[:]...), zipped.Bytes()...)); err != nil && !errors.Is(err, beliefs.ErrForm) {
			t.Errorf("said %v, want %v", err, beliefs.ErrForm)
		}
	})
}
