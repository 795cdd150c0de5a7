"""Solves the problems of rounds.json with HiGHS (scipy.optimize.milp) and writes
the least costs beside them. Run in this folder after the problems were sampled
(go test ./internal/sim/rounds -run SampledRounds -write)."""
import json

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

rounds = json.load(open("rounds.json"))
for r in rounds:
    cost, rows, use, fixed = [], [], [], []
    constant = 0
    for j, job in enumerate(r["jobs"]):
        constant += r["unserved"]
        for k, (typ, gpus, c) in enumerate(job["options"]):
            cost.append(c - r["unserved"])
            rows.append(j)
            use.append((typ, gpus))
            fixed.append(1 if job.get("must") and k == 0 else 0)
    n = len(cost)
    if n == 0:
        r["milp"] = constant
        continue
    one = np.zeros((len(r["jobs"]), n))
    room = np.zeros((len(r["room"]), n))
    for i in range(n):
        one[rows[i], i] = 1
        room[use[i][0], i] = use[i][1]
    res = milp(np.array(cost), integrality=np.ones(n), bounds=Bounds(np.array(fixed), np.ones(n)),
               constraints=[LinearConstraint(one, -np.inf, 1), LinearConstraint(room, -np.inf, r["room"])],
               options={"mip_rel_gap": 0})
    assert res.status == 0, res.message
    r["milp"] = constant + int(round(res.fun))
with open("rounds.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rounds) + "\n]\n")
