// The JSON of an estimate as the page uses it; docs/estimating.md says what
// each field is.

export interface Term {
  name: string;
  bytes: number;
  formula: string;
}

export interface Point {
  phase: string;
  unit: string;
  recompute: boolean;
  live_bytes: number;
}

export interface Unit {
  name: string;
  op: string;
  saved_bytes: number;
  flops: number;
  cut: boolean;
}

export interface Stage {
  gpus: string;
  units: string;
  parameters: number;
  states_bytes: number;
  activation_bytes: number;
  in_flight: number;
  live_peak_bytes: number;
  total_bytes: number;
  host_bytes: number;
  fullest: boolean;
}

export interface Advice {
  change: string;
  flags: string;
  cost: string;
  total_bytes: number;
  saved_bytes: number;
}

export interface Fit {
  gpu: string;
  class: string;
  memory_bytes: number;
  bandwidth_gbs: number;
  nvlink_gbs: number;
  tflops: { fp32: number; tf32: number; fp16: number; fp8: number };
  source: { title: string; address: string };
  fits: boolean;
  free_bytes: number;
  changes: string[];
  flags: string;
  changed_total_bytes: number | null;
}

export interface Estimate {
  tool: { name: string; version: string };
  model: string;
  parameters: number;
  training: boolean;
  setup: string;
  batch: number;
  dims: Record<string, number>;
  gpus: number;
  total_bytes: number;
  live_peak_bytes: number;
  terms: Term[];
  peak: { phase: string; unit: string };
  saved_activation_bytes: number;
  activation_bytes_a_sample: number;
  recompute_overhead: number;
  checkpoints: { first: string; last: string; units: number; flops: number }[];
  checkpoint_curve: {
    flags: string; total_bytes: number; overhead: number;
  }[];
  allocators: {
    caching_allocated_bytes: number;
    caching_reserved_bytes: number;
    expandable_reserved_bytes: number;
    idle_bytes: number;
    tensorflow_reserved_bytes: number;
    runtime_reserved_bytes: number;
    runtime_same_reserved_bytes: number;
    advice: string[];
  };
  timeline: Point[];
  at_peak: { name: string; category: string; bytes: number }[];
  units: Unit[];
  per_gpu: Stage[];
  pooled_bytes: number;
  host_bytes: number;
  rule_of_thumb: { bytes: number; terms: Term[]; notes: string[] };
  published: Term[];
  budget_bytes: number | null;
  budget: string;
  fits_budget: boolean | null;
  max_batch: number | null;
  max_length: number | null;
  buckets: { dimension: string; rows: { length: number; batch: number }[] };
  fits: Fit[];
  advice: Advice[];
  combination: Advice | null;
  notes: string[];
}

// Both reports come in the same element.
export function isEstimate(report: object): report is Estimate {
  return 'rule_of_thumb' in report;
}
