// The JSON report as the page uses it; docs/report.md says what each field is.

import type { Estimate } from './estimate_report';

export interface RuntimePeaks {
  first_peak_bytes: number;
  steady_peak_bytes: number;
}

export interface Peak {
  live_peak_bytes: number;
  packed_peak_bytes: number;
  total_bytes: number;
  peak_step: number;
  peak_node: string;
  peak_op: string;
  runtime: { bare: RuntimePeaks; default: RuntimePeaks };
  live_peak_formulas?: string[];
}

export interface Tensor {
  name: string;
  producer: string | null;
  kind: string;
  dtype: string | null;
  shape: string | null;
  bytes: number | null;
  begin: number;
  end: number;
  storage: number;
  bytes_formula?: string;
  graph?: number;
}

export interface Node {
  index: number;
  name: string;
  op: string;
  output_bytes: number | null;
  live_bytes: number;
  flops: number | null;
  traffic_bytes: number | null;
  graph?: number;
}

export interface Pass {
  name: string;
  changed: boolean;
  seconds: number;
  remarks: string[];
}

export interface SweepPoint {
  dims: Record<string, number>;
  weights_bytes: number;
  before: Peak;
  after: Peak | null;
}

// By column: item i of each list belongs together.
export interface Profile {
  arena_bytes: number;
  steps: {
    name: string[];
    op: string[];
    graph: number[];
    live_bytes: number[];
  };
  buffers: {
    tensor: string[];
    begin: number[];
    end: number[];
    bytes: number[];
    offset_bytes: number[];
  };
}

export interface Report {
  tool: { name: string; version: string };
  model: {
    path: string;
    sha256: string;
    opset: number;
    ir_version: number;
    nodes: number;
    size_bytes: number;
  };
  dims: Record<string, { value: number; assumed: boolean }>;
  complete: boolean;
  unknown_tensors: string[];
  weights: {
    bytes: number;
    count: number;
    duplicate_bytes: number;
    transposed_bytes: number;
    after_bytes: number;
    notes: string[];
  };
  inputs_bytes: number;
  total_flops: number;
  before: Peak;
  after: Peak | null;
  at_peak: Tensor[];
  passes: Pass[];
  sweep: SweepPoint[];
  warnings: string[];
  outputs: string[];
  nodes: Node[];
  inner_nodes: Node[];
  tensors: Tensor[];
  profile: { before: Profile; after: Profile | null };
  // What some versions add.
  time_ratio?: number | null;
  budget?: {
    bytes: number;
    reached_bytes: number;
    met: boolean;
    reason: string | null;
  } | null;
  session_options?: unknown;
  // Of a training step.
  checkpoints?: {
    first: string;
    last: string;
    nodes: number;
    bytes: number;
  }[];
  pareto?: { peak_bytes: number; added_time: number }[];
}

export type Side = 'before' | 'after';

export function readReport(): Report | Estimate {
  const element = document.getElementById('report');
  return JSON.parse(element?.textContent ?? '') as Report | Estimate;
}
