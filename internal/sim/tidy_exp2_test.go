package sim
import ("testing";"fmt";"sort"
"github.com/headrace-dev/headrace/internal/core/cluster"
"github.com/headrace-dev/headrace/internal/sim/trace"
)
func TestResid(t *testing.T){
 w:=openb(t,"default")
 seed:=int64(42)
 tuned := trace.Tune(w, trace.PublishedRatio, seed)
	ranks := make(map[string]int32, len(tuned.Rank))
	for i, rank := range tuned.Rank { ranks[w.Nodes[i].Name] = rank }
 r,err:=newRun(Config{Workload:&tuned.Workload,Mode:Static,Policy:Ours,Seed:seed,NodeRank:ranks,Target:&w})
 if err!=nil { t.Fatal(err)}
 if err:=r.static();err!=nil{t.Fatal(err)}
 v:=r.world.View()
 type row struct{ model string; cpu int64; milli int64; n int; full int64}
 byModel:=map[string]*row{}
 starv:=int64(0); tot:=int64(0); hist:=map[string]int64{}
 for i:=range v.Nodes.Len(){ n:=v.Node(cluster.NodeID(i)); if n.Spec.DeviceCount==0 {continue}
  m:=v.Symbols.Text(v.DeviceOf(n,0).Spec.Model)
  x:=byModel[m]; if x==nil{x=&row{model:m};byModel[m]=x}
  x.n++; x.cpu+=n.Free.At(cluster.DimCPU); x.milli+=int64(n.FreeMilli); x.full+=int64(n.Spec.DeviceCount)*1000
  tot+=int64(n.FreeMilli)
  if n.FreeMilli>0 && n.Free.At(cluster.DimCPU)<2000 { starv+=int64(n.FreeMilli)}
  for k:=range n.Spec.DeviceCount { f:=int64(v.DeviceOf(n,k).FreeMilli); if f>0 { cpu:=n.Free.At(cluster.DimCPU)/4000*4; hist[fmt.Sprintf("gpu free %4d cpu>=%2d",(f+99)/100*100,min(cpu,16))]+=f}}
 }
 for _,x:=range byModel{ fmt.Printf("%+v\n",*x)}
 fmt.Println("total free",tot,"starved",starv)
 var ks []string; for k:=range hist{ks=append(ks,k)}; sort.Strings(ks); for _,k:=range ks{fmt.Println(k,hist[k])}
 fail:=map[string]int64{}; 
 for i:=range tuned.Workload.Pods{ p:=&tuned.Workload.Pods[i]; if _,ok:=r.world.Pod(p.Name);!ok { fail[fmt.Sprintf("fail %dx%d cpu %d models %v",p.GPUs,p.Milli,p.CPU/1000,len(p.Models))]++}}
 ks=nil; for k:=range fail{ks=append(ks,k)}; sort.Slice(ks,func(i,j int)bool{return fail[ks[i]]>fail[ks[j]]}); for _,k:=range ks[:25]{fmt.Println(k,fail[k])}
 cp:=0; for i:=range v.Pods.Len(){p:=v.Pod(cluster.PodID(i)); if p.Placement.Placed()&&p.Placement.Milli()==0{cp++}}; fmt.Println("cpu-only placed",cp)
}
func TestPatterns(t *testing.T){
 w:=openb(t,"default")
 seed:=int64(42)
 tuned := trace.Tune(w, trace.PublishedRatio, seed)
	ranks := make(map[string]int32, len(tuned.Rank))
	for i, rank := range tuned.Rank { ranks[w.Nodes[i].Name] = rank }
 r,err:=newRun(Config{Workload:&tuned.Workload,Mode:Static,Policy:Ours,Seed:seed,NodeRank:ranks,Target:&w})
 if err!=nil { t.Fatal(err)}
 if err:=r.static();err!=nil{t.Fatal(err)}
 v:=r.world.View()
 pat:=map[string]int{}; small:=map[int64]int{}; small810:=map[int64]int{}
 for i:=range v.Nodes.Len(){ n:=v.Node(cluster.NodeID(i))
  on:=make([][]int64,n.Spec.DeviceCount)
  for _,id:=range n.Pods { p:=v.Pod(id); for _,g:=range p.Placement.Grants { k:=g.Device-n.Spec.FirstDevice; on[k]=append(on[k],int64(g.Milli))}}
  for k:=range on { sort.Slice(on[k],func(a,b int)bool{return on[k][a]>on[k][b]}); pat[fmt.Sprint(on[k])]++
   big:=false; for _,m:=range on[k]{ if m>=750{big=true}}
   for _,m:=range on[k]{ if m<=200 { if big {small810[m]++} else {small[m]++}}}
  }
 }
 var ks []string; for k:=range pat{ks=append(ks,k)}; sort.Slice(ks,func(i,j int)bool{return pat[ks[i]]>pat[ks[j]]}); for _,k:=range ks[:70]{fmt.Println(pat[k],k)}
 fmt.Println("small elsewhere",small); fmt.Println("small beside big",small810)
}
func TestWhen(t *testing.T){
 w:=openb(t,"default")
 seed:=int64(42)
 tuned := trace.Tune(w, trace.PublishedRatio, seed)
	ranks := make(map[string]int32, len(tuned.Rank))
	for i, rank := range tuned.Rank { ranks[w.Nodes[i].Name] = rank }
 r,err:=newRun(Config{Workload:&tuned.Workload,Mode:Static,Policy:Ours,Seed:seed,NodeRank:ranks,Target:&w})
 if err!=nil { t.Fatal(err)}
 m := newGauge(r)
 type st struct{a,f int}
 seg:=map[int]map[string]*st{}; idle:=map[int]int{}; alloc:=map[int]int64{}; part:=map[int]int64{}
 for i:=range tuned.Workload.Pods { p:=&tuned.Workload.Pods[i]; before:=r.result.Failed
  if err:=r.offer(p,m);err!=nil{t.Fatal(err)}
  s:=int(m.arrived*100/r.capacity); if seg[s]==nil{seg[s]=map[string]*st{}}
  k:=fmt.Sprint(p.GPUs,"x",p.Milli); if p.Milli<1000&&p.Milli!=810&&p.GPUs>0 {k="share"}
  if seg[s][k]==nil{seg[s][k]=&st{}}
  if r.result.Failed>before{seg[s][k].f++}else{seg[s][k].a++}
  v:=r.world.View(); id:=0; pt:=int64(0); for j:=range v.Devices.Len(){d:=v.Device(cluster.DeviceID(j)); if d.FreeMilli==1000{id++} else if d.FreeMilli>190 {pt+=int64(d.FreeMilli)}}; idle[s]=id; part[s]=pt
  alloc[s]=m.allocated*10000/r.capacity
 }
 for s:=88;s<131;s++ { fmt.Print(s," alloc ",alloc[s]," idle ",idle[s]," partial>190 ",part[s]); for _,k:=range []string{"1x1000","1x810","share","2x1000","4x1000","8x1000"}{ if x:=seg[s][k];x!=nil{fmt.Printf("  %s +%d -%d",k,x.a,x.f)}}; fmt.Println()}
}
func TestDump(t *testing.T){
 w:=openb(t,"default")
 seed:=int64(42)
 tuned := trace.Tune(w, trace.PublishedRatio, seed)
	ranks := make(map[string]int32, len(tuned.Rank))
	for i, rank := range tuned.Rank { ranks[w.Nodes[i].Name] = rank }
 r,err:=newRun(Config{Workload:&tuned.Workload,Mode:Static,Policy:Ours,Seed:seed,NodeRank:ranks,Target:&w})
 if err!=nil { t.Fatal(err)}
 if err:=r.static();err!=nil{t.Fatal(err)}
 in:=map[int64]int{}; out:=map[int64]int{}
 for i:=range tuned.Workload.Pods{ p:=&tuned.Workload.Pods[i]; if p.GPUs==0{continue}; n:=1; if p.Milli>=1000{n=p.GPUs}; if _,ok:=r.world.Pod(p.Name);ok {in[int64(p.Milli)]+=n} else {out[int64(p.Milli)]+=n}}
 fmt.Println("devices",r.capacity/1000)
 for k,n:=range in{fmt.Println("in",k,n)}
 for k,n:=range out{fmt.Println("out",k,n)}
}
