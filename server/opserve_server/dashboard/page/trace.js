// A session's timeline in Chrome's trace format, for Perfetto: the same events as session.trace() of the Python client.
const PROCESS = 2 ** 20; // a number that no thread has

export function chromeTrace(timeline, process) {
  const starts = [...timeline.streams.flatMap((stream) => stream.entries.map((entry) => entry.queued_s)), ...timeline.copies.map((copy) => copy.started_s)];
  const zero = starts.length ? Math.min(...starts) : 0;
  const events = [event("M", 1, "process_name", { args: { name: process } })];
  let thread = 0;
  for (const { stream, entries } of timeline.streams) {
    events.push(...named(++thread, stream ? `stream ${stream}` : "default stream"), ...workOf(thread, entries, zero));
  }
  for (const copies of rowsOf(timeline.copies)) {
    events.push(...named(++thread, "copies"), ...copies.map((copy) => slice(thread, copy.kind.toLowerCase(), "copy", copy.started_s - zero, copy.ended_s - zero,
      { buffer: copy.buffer, size_bytes: copy.size_bytes })));
  }
  return { displayTimeUnit: "ms", otherData: { kernel_variant: timeline.kernel_variant }, traceEvents: events };
}

/** Name and span of an entry; the span of a record or dropped work is null. Entries come in the order of endings. */
export function spansOf(entries, zero) {
  let free = zero;
  return entries.toSorted((one, other) => one.ended_s - other.ended_s).map((entry) => {
    const name = entry.operator || `${entry.kind.toLowerCase()} event ${entry.handle}`;
    if (entry.kind === "RECORD" || entry.started_s === null) return { entry, name, span: null };
    // A stopped call began where it went to the device; there it may have waited behind another.
    const start = Math.min(Math.max(entry.started_s, free), entry.ended_s);
    free = entry.ended_s;
    return { entry, name, kind: entry.kind === "EXECUTE" ? "kernel" : "wait", span: [start - zero, free - zero] };
  });
}

function workOf(thread, entries, zero) {
  return spansOf(entries, zero).map(({ entry, name, kind, span }) => span
    ? slice(thread, name, kind, ...span, detailsOf(entry))
    : event("i", thread, name, { cat: "event", ts: Math.round((entry.ended_s - zero) * 1e9) / 1e3, s: "t", args: detailsOf(entry) }));
}

const rounded = (number) => Number(number.toFixed(6));

function detailsOf(entry) {
  const details = { number: entry.number, handle: entry.handle };
  if (entry.started_s !== null) details.queue_ms = rounded((entry.started_s - entry.queued_s) * 1e3);
  if (entry.kernel_s !== null) details.kernel_ms = rounded(entry.kernel_s * 1e3);
  return entry.outcome === "DONE" ? details : { ...details, outcome: entry.outcome, reason: entry.reason };
}

/** As few rows as copies that ran at the same time need. */
export function rowsOf(copies) {
  const rows = [];
  for (const copy of copies.toSorted((one, other) => one.started_s - other.started_s)) {
    const row = rows.find((held) => held.at(-1).ended_s <= copy.started_s);
    if (row) row.push(copy);
    else rows.push([copy]);
  }
  return rows;
}

function slice(thread, name, cat, from, to, args) {
  const [start, end] = [Math.round(from * 1e9), Math.round(to * 1e9)];
  return event("X", thread, name, { cat, ts: start / 1e3, dur: (end - start) / 1e3, args });
}

function named(thread, name) {
  return [event("M", thread, "thread_name", { args: { name } }), event("M", thread, "thread_sort_index", { args: { sort_index: thread } })];
}

const event = (ph, tid, name, members) => ({ ph, pid: PROCESS, tid, name, ...members });
