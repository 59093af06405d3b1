#!/bin/sh
# k FP4 networks against one bf16 network of the same cost, and policies of a service on pools of them.
#   tools/studies/serve.sh results/serve      (trains some 400 small networks: a quarter of an hour on 2 idle cores)
set -eu
out=$1
/usr/bin/python3 tools/studies/serve.py build/studies/serve "$out" 20 votes
/usr/bin/python3 tools/studies/serve.py build/studies/serve "$out" 12 policies
node tools/scripts/curves.mjs "$out/votes.csv" --x cost_x --y wrong_percent --line ensemble --panel network \
  --linear y --title 'ensembles of one network' \
  --x-label 'cost, bf16 networks' --y-label 'wrong answers, %' --out "$out/votes.svg"
node tools/scripts/curves.mjs "$out/policies.csv" --x cost_per_million --y wrong_percent --line policy --panel trace \
  --where pool=bf16 --linear y --title 'wrong answers against cost' \
  --x-label 'US dollars for a million requests' --y-label 'wrong answers, %' --out "$out/policies.svg"
node tools/scripts/curves.mjs "$out/latency.csv" --x percentile --y ms --line policy --panel trace \
  --where pool=bf16 --linear x --title 'latency of a pool of bf16 members' \
  --x-label 'percentile of the requests' --y-label 'latency, ms' --out "$out/latency.svg"
