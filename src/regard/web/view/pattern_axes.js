// The axes of a pattern: in row form x runs over keys and y over queries, in column form the other way round.

export function patternAxes(view) {
  const byRow = () => view.state.form === "row";
  const isQueryAxis = (axis) => (axis === "y") === byRow();
  return {
    byRow,
    isQueryAxis,
    across: () => (byRow() ? view.entry.S : view.entry.L),
    down: () => (byRow() ? view.entry.L : view.entry.S),
    toCell: (x, y) => (byRow() ? { q: y, k: x } : { q: x, k: y }),
    toXY: (q, k) => (byRow() ? { x: k, y: q } : { x: q, y: k }),
    tokenAt: (axis, i) => (isQueryAxis(axis) ? view.sighting.queryToken(view.entry, i) : view.sighting.keyToken(view.entry, i)),
  };
}
