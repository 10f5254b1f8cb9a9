// The cells of a pattern that are visible: all of them, or fewer after zooming in.

const LEAST_CELLS = 2; // that zooming in leaves

// box: { x0, y0, width, height } in cells, or null before the first drawing.
export function patternViewport(view, axes) {
  const { across, down, toXY } = axes;
  let box = null;
  let shape = "";
  const clamp = ({ x0, y0, width, height }) => ({
    x0: Math.min(Math.max(0, x0), across() - width),
    y0: Math.min(Math.max(0, y0), down() - height),
    width,
    height,
  });
  const fit = () => {
    box = { x0: 0, y0: 0, width: across(), height: down() };
  };
  // The middle of the selected cell, or of what is visible.
  function selectedPoint() {
    const { q, k } = view.state;
    const { x, y } = toXY(q, k ?? q);
    return { x: (x ?? box.x0 + box.width / 2) + 0.5, y: (y ?? box.y0 + box.height / 2) + 0.5 };
  }
  return {
    get box() {
      return box;
    },
    isZoomed: () => box !== null && (box.width < across() || box.height < down()),
    fit,
    // A pattern of another shape is shown whole.
    fitNewShape() {
      const newShape = `${view.entry.L}.${view.entry.S}.${view.state.form}`;
      if (shape !== newShape || !box) fit();
      shape = newShape;
    },
    moveTo(x0, y0) {
      box = clamp({ ...box, x0, y0 });
    },
    // Zoom around a point in cells; without one around the selected cell, or the middle.
    zoom(factor, centre = null) {
      const { x, y } = centre || selectedPoint();
      const width = Math.min(across(), Math.max(LEAST_CELLS, box.width * factor));
      const height = Math.min(down(), Math.max(LEAST_CELLS, box.height * factor));
      // The point keeps its place on the screen; a point outside comes to the middle when zooming in.
      const share = (at, start, size) => {
        const outside = at < start || at > start + size;
        return factor < 1 && outside ? 0.5 : Math.min(1, Math.max(0, (at - start) / size));
      };
      const x0 = x - share(x, box.x0, box.width) * width;
      const y0 = y - share(y, box.y0, box.height) * height;
      box = clamp({ x0, y0, width, height });
    },
    // Scroll to a cell selected with the keyboard.
    reveal() {
      if (!box || view.state.q === null) return;
      const { x, y } = toXY(view.state.q, view.state.k);
      const moved = { ...box };
      if (x !== null && (x < box.x0 || x + 1 > box.x0 + box.width)) moved.x0 = x + 0.5 - box.width / 2;
      if (y !== null && (y < box.y0 || y + 1 > box.y0 + box.height)) moved.y0 = y + 0.5 - box.height / 2;
      box = clamp(moved);
    },
  };
}
