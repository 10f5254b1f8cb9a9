// A table dropped on the page: the first two columns that hold numbers.

export function readTable(text, say) {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/).filter((line) => line.trim() && !line.startsWith("#"));
  if (!lines.length) throw new Error(say.empty);
  const mark = ["\t", ";", ",", " "].find((c) => lines[0].includes(c)) || ",";
  const rows = lines.map((line) => (mark === " " ? line.trim().split(/\s+/) : line.split(mark)).map((cell) => cell.trim().replace(/^"|"$/g, "")));
  const value = (cell) => (cell === undefined || cell === "" ? NaN : Number(mark === ";" ? cell.replace(",", ".") : cell));
  const columns = Math.max(...rows.map((row) => row.length));
  const numeric = Array.from({ length: columns }, (_, c) => c).filter((c) => rows.filter((row) => Number.isFinite(value(row[c]))).length >= Math.max(2, rows.length * 0.5));
  if (numeric.length < 2) throw new Error(say.noColumns);
  const kept = rows.map((row) => [value(row[numeric[0]]), value(row[numeric[1]])]).filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b) && Math.abs(a) <= 1e6 && Math.abs(b) <= 1e6);
  if (kept.length < 2) throw new Error(say.noColumns);
  if (kept.length > 2000) throw new Error(say.tooMany(kept.length));
  return { x: kept.map((p) => p[0]), y: kept.map((p) => p[1]), dropped: rows.length - kept.length - (Number.isFinite(value(rows[0][numeric[0]])) ? 0 : 1) };
}
