// Session options of ONNX Runtime that suit the model, as code to copy, and
// what the runtime takes with each set that was compared.

import { generic, plainTable } from './details';
import { h, section } from './dom';
import { formatBytes, printable } from './format';

interface Options {
  enable_cpu_mem_arena: boolean;
  enable_mem_pattern: boolean;
  enable_mem_reuse: boolean;
  execution_order: string;
  disabled_optimizers: string[];
}

interface Sessions {
  recommended: Options | null;
  candidates: {
    options: Options;
    first_peak_bytes: number;
    steady_peak_bytes: number;
  }[];
}

function isSessions(value: unknown): value is Sessions {
  return typeof value === 'object' && value !== null &&
    'recommended' in value && 'candidates' in value &&
    Array.isArray(value.candidates);
}

// What differs from what a session has without being told.
function changes(options: Options): string[] {
  const lines: string[] = [];
  for (const name of ['enable_cpu_mem_arena', 'enable_mem_pattern',
    'enable_mem_reuse'] as const) {
    if (options[name] === false) lines.push(`${name} = False`);
  }
  if (options.execution_order !== 'DEFAULT') {
    lines.push('execution_order = onnxruntime.ExecutionOrder.' +
      options.execution_order);
  }
  return lines;
}

function disabled(options: Options): string {
  return options.disabled_optimizers.length === 0 ? ''
    : `disabled_optimizers=${JSON.stringify(options.disabled_optimizers)}`;
}

function code(options: Options, model: string): string {
  const without = disabled(options);
  return [
    // Else glibc keeps what is freed.
    ...(options.enable_cpu_mem_arena ? []
      : ['# in the environment: MALLOC_MMAP_THRESHOLD_=65536']),
    'options = onnxruntime.SessionOptions()',
    ...changes(options).map((line) => `options.${line}`),
    `session = onnxruntime.InferenceSession(${JSON.stringify(model)}, options` +
      `${without === '' ? '' : `,\n    ${without}`})`,
  ].join('\n');
}

export function sessionsSection(
  value: unknown, model: string,
): HTMLElement | null {
  if (value === undefined || value === null) return null;
  const title = 'Session options';
  if (!isSessions(value)) {
    return section('session-options', title, '', generic(value));
  }
  const { recommended, candidates } = value;
  const chosen = JSON.stringify(recommended);
  const rows = candidates.map((candidate) => {
    // The code above has the whole names.
    const text = [...changes(candidate.options), disabled(candidate.options)]
      .filter((part) => part !== '').join(', ')
      .replace('onnxruntime.ExecutionOrder.', '');
    const best = JSON.stringify(candidate.options) === chosen;
    return [
      h('span', {}, printable(text === '' ? 'as they come' : text),
        best && h('span', { class: 'badge changed' }, 'recommended')),
      formatBytes(candidate.first_peak_bytes),
      formatBytes(candidate.steady_peak_bytes),
    ];
  });
  const plain = recommended !== null && changes(recommended).length === 0 &&
    disabled(recommended) === '';
  return section('session-options', title, plain
    ? 'ONNX Runtime takes the least with its options as they come.'
    : 'With these ONNX Runtime is predicted to take the least.',
  recommended !== null && !plain &&
    h('pre', {}, h('code', {},
      code(recommended, model).split('\n').map(printable).join('\n'))),
  plainTable(['options', 'first run', 'later runs'], rows, [1, 2]));
}
