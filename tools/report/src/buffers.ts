// The buffers of a profile in typed arrays: who lives at a step, and who lies
// at a place, are answered by looking at all of them, which takes microseconds.

import type { Profile } from './report';

export interface Buffers {
  count: number;
  begin: Int32Array;
  end: Int32Array;
  bytes: Float64Array;
  offset: Float64Array;
  bySize: Int32Array; // indices, the largest first
}

const cache = new WeakMap<Profile, Buffers>();

export function buffersOf(profile: Profile): Buffers {
  const known = cache.get(profile);
  if (known) return known;
  const { begin, end, bytes, offset_bytes } = profile.buffers;
  const size = Float64Array.from(bytes);
  const bySize = Int32Array.from(size, (_, i) => i);
  bySize.sort((a, b) => (size[b] ?? 0) - (size[a] ?? 0) || a - b);
  const made: Buffers = {
    count: size.length,
    begin: Int32Array.from(begin),
    end: Int32Array.from(end),
    bytes: size,
    offset: Float64Array.from(offset_bytes),
    bySize,
  };
  cache.set(profile, made);
  return made;
}

// The largest first.
export function liveAt(buffers: Buffers, step: number): number[] {
  const live: number[] = [];
  for (const i of buffers.bySize) {
    if ((buffers.begin[i] ?? 0) <= step && step < (buffers.end[i] ?? 0)) {
      live.push(i);
    }
  }
  return live;
}

export function bufferAt(
  buffers: Buffers, step: number, offset: number,
): number | null {
  for (let i = 0; i < buffers.count; ++i) {
    const low = buffers.offset[i] ?? 0;
    if ((buffers.begin[i] ?? 0) <= step && step < (buffers.end[i] ?? 0) &&
        low <= offset && offset < low + (buffers.bytes[i] ?? 0)) {
      return i;
    }
  }
  return null;
}
