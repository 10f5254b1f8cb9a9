// The pointer over a pattern: hovering selects, a click pins, dragging pans, two fingers or ctrl and the wheel zoom.

const DRAG_FROM = 4; // pixels a pressed pointer must move to pan rather than to click

export function listenToPointer(canvas, view, { axes, viewport, zoom, draw }) {
  const fingers = new Map();
  let press = null; // where the pointer went down: { x, y, box, moved }
  let fingerDistance = 0; // between two fingers, in pixels
  const { pointAt, cellAt } = positions(canvas, view, axes, viewport);

  const hover = (event) => {
    const cell = cellAt(event);
    if (cell) view.hover(cell.q, cell.k);
  };
  function pinch() {
    const [a, b] = [...fingers.values()];
    const distance = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    if (fingerDistance) zoom(fingerDistance / distance);
    fingerDistance = distance;
  }
  function pan(event) {
    press.moved = true;
    const { cellWidth, cellHeight } = view.plot;
    viewport.moveTo(press.box.x0 - (event.clientX - press.x) / cellWidth, press.box.y0 - (event.clientY - press.y) / cellHeight);
    draw();
  }
  const isDragged = (event) => press && (press.moved || Math.hypot(event.clientX - press.x, event.clientY - press.y) > DRAG_FROM);

  function down(event) {
    fingers.set(event.pointerId, event);
    press = { x: event.clientX, y: event.clientY, box: { ...viewport.box }, moved: false };
    if (event.pointerType !== "mouse") hover(event);
  }
  function move(event) {
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (fingers.size === 2) pinch();
    else if (isDragged(event) && viewport.isZoomed()) pan(event);
    else hover(event);
  }
  function release(event) {
    fingers.delete(event.pointerId);
    fingerDistance = 0;
    const cell = press && !press.moved && event.type === "pointerup" && cellAt(event);
    if (cell) view.pin(cell.q, cell.k);
    press = null;
  }
  function zoomIntoCell(event) {
    const cell = cellAt(event);
    if (!cell) return;
    const { x, y } = axes.toXY(cell.q, cell.k);
    zoom(0.4, { x: x + 0.5, y: y + 0.5 });
  }
  function wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, pointAt(event));
  }
  canvas.addEventListener("pointerdown", down);
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => {
    if (!fingers.size) view.leave();
  });
  canvas.addEventListener("dblclick", zoomIntoCell);
  canvas.addEventListener("wheel", wheel, { passive: false });
}

// From an event to the point in cells, and to the query and key there.
function positions(canvas, view, { toCell }, viewport) {
  function pointAt(event) {
    const { margin, cellWidth, cellHeight } = view.plot;
    const rectangle = canvas.getBoundingClientRect();
    return {
      x: viewport.box.x0 + (event.clientX - rectangle.left - margin.left) / cellWidth,
      y: viewport.box.y0 + (event.clientY - rectangle.top - margin.top) / cellHeight,
    };
  }
  // null beside the cells: on the labels, and on what is zoomed out of view.
  function cellAt(event) {
    const { x, y } = pointAt(event);
    const { x0, y0, width, height } = viewport.box;
    return x < x0 || y < y0 || x >= x0 + width || y >= y0 + height ? null : toCell(Math.floor(x), Math.floor(y));
  }
  return { pointAt, cellAt };
}
