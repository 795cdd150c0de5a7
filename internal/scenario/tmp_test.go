package scenario
import ("os";"testing";"strings")
func TestTmp(t *testing.T){ for _, f := range strings.Fields(os.Getenv("SCN")) { ok, err := File(f, os.Stdout, false); t.Log(ok, err) } }
