// A table of numbers from a text file: its first two numeric columns are x and y.

const MOST_POINTS = 2000;
const LARGEST = 1e6;

// Returns { x, y, dropped: lines without numbers }. Errors are in the reader's language (texts).
export function readTable(text, texts) {
  const lines = text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .filter((line) => line.trim() && !line.startsWith("#"));
  if (!lines.length) throw new Error(texts.empty);
  const separator = ["\t", ";", ",", " "].find((c) => lines[0].includes(c)) || ",";
  const split = (line) => (separator === " " ? line.trim().split(/\s+/) : line.split(separator));
  const rows = lines.map((line) => split(line).map((cell) => toNumber(cell.trim().replace(/^"|"$/g, ""), separator)));
  const [first, second] = numericColumns(rows);
  if (second === undefined) throw new Error(texts.noColumns);
  const usable = (value) => Number.isFinite(value) && Math.abs(value) <= LARGEST;
  const kept = rows.map((row) => [row[first], row[second]]).filter(([x, y]) => usable(x) && usable(y));
  if (kept.length < 2) throw new Error(texts.noColumns);
  if (kept.length > MOST_POINTS) throw new Error(texts.tooMany(kept.length));
  const header = Number.isFinite(rows[0][first]) ? 0 : 1;
  return { x: kept.map(([x]) => x), y: kept.map(([, y]) => y), dropped: rows.length - kept.length - header };
}

// With ; between cells a comma may be the decimal point.
function toNumber(cell, separator) {
  if (cell === "") return NaN;
  return Number(separator === ";" ? cell.replace(",", ".") : cell);
}

// The columns in which at least half of the rows, and two of them, hold numbers.
function numericColumns(rows) {
  const columns = Math.max(...rows.map((row) => row.length));
  const least = Math.max(2, rows.length * 0.5);
  const numbers = (c) => rows.filter((row) => Number.isFinite(row[c])).length;
  return Array.from({ length: columns }, (_, c) => c).filter((c) => numbers(c) >= least);
}
