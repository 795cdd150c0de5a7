package sim
import ("testing";"os";"strconv";"time"
"github.com/headrace-dev/headrace/internal/core/tidy"
"github.com/headrace-dev/headrace/internal/sim/trace")
func TestTidyExp(t *testing.T){
 w:=openb(t,"default")
 for _, x := range []int64{2000,1000,500,250,1}{
 seed:=int64(42)
 tuned := trace.Tune(w, trace.PublishedRatio, seed)
	ranks := make(map[string]int32, len(tuned.Rank))
	for i, rank := range tuned.Rank { ranks[w.Nodes[i].Name] = rank }
 r:=tidy.Default(); r.PerHour=0; r.Hypotheses=1000000; r.Price=x*3600
 if s:=os.Getenv("ATONCE"); s!="" { n,_:=strconv.Atoi(s); r.AtOnce=int32(n) }
 b:=time.Now()
 res,err:=Run(Config{Workload:&tuned.Workload,Mode:Static,Policy:Ours,Seed:seed,NodeRank:ranks,Target:&w,Tidy:&r})
 if err!=nil { t.Fatal(err)}
 t.Logf("price %d: moves %d (%.1f‰) unlocked pods %d milli %d per move %.0f alloc %.2f placed %d  %v", x, res.Tidied.Moves, 1000*float64(res.Tidied.Moves)/float64(res.Placed), res.Tidied.PodsUnlocked, res.Tidied.MilliUnlocked, float64(res.Tidied.MilliUnlocked)/float64(res.Tidied.Moves), res.GPUAllocPct[len(res.GPUAllocPct)-1], res.Placed, time.Since(b))
 }
}
