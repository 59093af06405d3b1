#!/bin/sh
# The language model of loss_scaling, at one learning rate. 12 minutes on an idle core.
#   tools/studies/loss_scaling.sh results/loss_scaling
exec "$(dirname "$0")/lm_beside.sh" loss_scaling "$1"
