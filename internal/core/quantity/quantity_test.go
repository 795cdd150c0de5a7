package quantity_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

const (
	least = math.MinInt64
	most  = math.MaxInt64
)

// corners are the values at which arithmetic in 64 bits goes wrong.
var corners = []int64{least, least + 1, -1 << 32, -3, -1, 0, 1, 2, 3, 1<<32 - 1, 1 << 32, 1 << 62, most - 1, most}

func TestString(t *testing.T) {
	for _, c := range []struct {
		in   fmt.Stringer
		want string
	}{
		{in: quantity.MilliGPU(0), want: "0 GPU"},
		{in: quantity.WholeGPU, want: "1 GPU"},
		{in: quantity.MilliGPU(8000), want: "8 GPU"},
		{in: quantity.MilliGPU(250), want: "250 milli-GPU"},
		{in: quantity.MilliGPU(-1500), want: "-1500 milli-GPU"},
		{in: quantity.MilliCPU(64000), want: "64 CPU"},
		{in: quantity.MilliCPU(1500), want: "1500m CPU"},
		{in: quantity.Bytes(0), want: "0 B"},
		{in: quantity.Bytes(1023), want: "1023 B"},
		{in: quantity.KiB, want: "1 KiB"},
		{in: quantity.KiB + 1, want: "1025 B"},
		{in: 3 * quantity.MiB, want: "3 MiB"},
		{in: 80 * quantity.GiB, want: "80 GiB"},
		{in: 2 * quantity.TiB, want: "2048 GiB"},
		{in: 9*quantity.GiB + 1, want: "9663676417 B"},
		{in: 10*quantity.GiB + 1, want: "10240 MiB"},
		{in: -quantity.GiB, want: "-1073741824 B"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := c.in.String(); got != c.want {
				t.Errorf("%T(%d): got %q, want %q", c.in, c.in, got, c.want)
			}
		})
	}
}

func TestCompareProductsAtTheCorners(t *testing.T) {
	for _, a := range corners {
		for _, b := range corners {
			for _, c := range corners {
				for _, d := range corners {
					checkCompare(t, a, b, c, d)
				}
			}
		}
	}
}

func TestMulDivAtTheCorners(t *testing.T) {
	for _, a := range corners {
		for _, b := range corners {
			for _, c := range corners {
				checkMulDiv(t, a, b, c)
			}
		}
	}
}

func TestAddSaturatingAtTheCorners(t *testing.T) {
	for _, a := range corners {
		for _, b := range corners {
			want := clamp(new(big.Int).Add(big.NewInt(a), big.NewInt(b)))
			if got := quantity.AddSaturating(a, b); got != want {
				t.Errorf("AddSaturating(%d, %d): got %d, want %d", a, b, got, want)
			}
		}
	}
}

func FuzzCompareProducts(f *testing.F) {
	f.Add(int64(1), int64(2), int64(2), int64(1))
	f.Add(int64(least), int64(least), int64(most), int64(most))
	f.Fuzz(func(t *testing.T, a, b, c, d int64) { checkCompare(t, a, b, c, d) })
}

func FuzzMulDiv(f *testing.F) {
	f.Add(int64(7), int64(3), int64(2))
	f.Add(int64(least), int64(-1), int64(1))
	f.Add(int64(0), int64(5), int64(0))
	f.Fuzz(func(t *testing.T, a, b, c int64) { checkMulDiv(t, a, b, c) })
}

func checkCompare(t *testing.T, a, b, c, d int64) {
	t.Helper()
	want := product(a, b).Cmp(product(c, d))
	if got := quantity.CompareProducts(a, b, c, d); got != want {
		t.Errorf("CompareProducts(%d, %d, %d, %d): got %d, want %d", a, b, c, d, got, want)
	}
}

func checkMulDiv(t *testing.T, a, b, c int64) {
	t.Helper()
	p, want := product(a, b), int64(0)
	switch {
	case p.Sign() == 0:
	case c == 0 && p.Sign() > 0:
		want = most
	case c == 0:
		want = least
	default:
		want = clamp(new(big.Int).Quo(p, big.NewInt(c)))
	}
	if got := quantity.MulDiv(a, b, c); got != want {
		t.Errorf("MulDiv(%d, %d, %d): got %d, want %d", a, b, c, got, want)
	}
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

func clamp(x *big.Int) int64 {
	switch {
	case x.IsInt64():
		return x.Int64()
	case x.Sign() < 0:
		return least
	}
	return most
}
