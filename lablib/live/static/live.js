// The entry point of the live view: one for each place where the widget is shown.

import { make } from "../../viz/static/dom.js";
import { hidePicture } from "../../viz/static/fallback.js";
import { LiveView } from "./view.js";

function render({ model, el }) {
  const root = make("div.step-player.live-engine", { role: "group", "aria-label": "Live engine" });
  root.dataset.lmSuppressShortcuts = "true";
  el.append(root);
  let restore = null;
  const attached = new ResizeObserver(() => {
    if (root.isConnected && !restore) restore = hidePicture(root, model.get("_alt"));
  });
  attached.observe(root);
  const view = (root.live = new LiveView(root, model));
  return () => {
    attached.disconnect();
    restore?.();
    view.dispose();
    root.remove();
  };
}

export default { render };
