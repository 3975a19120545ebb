// Vega without maps, trees, forces and word clouds: specifications come compiled from Vega-Lite.
import { transforms } from "vega-dataflow";
import * as encode from "vega-encode";
import { expressionInterpreter } from "vega-interpreter";
import { parse } from "vega-parser";
import * as data from "vega-transforms";
import { View } from "vega-view";
import * as layout from "vega-view-transforms";

Object.assign(transforms, data, encode, layout);

export { View, expressionInterpreter, parse };
