#!/bin/sh
# The screening as a map: what each recipe costs beside bf16 in every cell, and FLOOR beside RCEIL.
#   tools/studies/pathology.sh results/pathology
set -eu
out=$1
cells=train.batch,train.steps,train.lr,task.*.depth,task.*.width
cells=$cells,task.*.outliers.channel,task.*.outliers.token,task.*.outliers.gradient
build/fp4sim effects build/studies/pathology --axis recipe --against bf16 --by "$cells" --csv "$out/map.csv" --force
build/fp4sim effects build/studies/pathology --axis recipe --against 'mxfp4 rceil' --where 'recipe=mxfp4|mxfp4 rceil' \
  --by "$cells" --csv "$out/clipping.csv" --force
rm -f "$out/front.svg"
