"""A configuration of an audit of digits, and its section `robustness`."""

from __future__ import annotations

CONFIG = """\
source: {kind: digits-s, recipe: {steps: 30}}
label: {column: digit}
groups: {style: {column: style}}
cluster: {column: source_id}
variants: [dense, {prune: [0.9]}, {int8: [static]}]
population: {models: 2}
keep_scores: true
tracking: {uri: "off"}
"""
ROBUST = """\
robustness:
  profile: scaled
  severities: [1, 5]
  examples: 150
  kinds: [noise, fog]
  corruption_seeds: 2
  confidence: true
  matched: {prune-0.9: int8-static}
  sets:
  - {name: own, folder: own}
  - {name: two, folder: two, classes: two.csv, mask: true, selected_against: resnet50}
"""
