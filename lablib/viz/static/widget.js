// The entry point: of the widget in a notebook, and of the offline page.

import { make } from "./dom.js";
import { hidePicture } from "./fallback.js";
import { Player } from "./player.js";
import { Replay, unpack } from "./replay.js";

function render({ model, el }) {
  const root = make("div.step-player", { role: "group", "aria-label": "Step player" });
  root.dataset.lmSuppressShortcuts = "true";
  el.append(root);
  let player = null, restore = null, gone = false;
  const attached = new ResizeObserver(() => {
    if (root.isConnected && !restore) restore = hidePicture(root, model.get("_alt"));
  });
  attached.observe(root);
  Promise.all(model.get("_traces").map(unpack))
    .then((traces) => {
      if (gone) return;
      const replays = traces.map((trace, i) => new Replay(trace, model.get("_names")[i]));
      player = root.player = new Player(root, model, replays);
    })
    .catch((error) => root.replaceChildren(make("p.sp-quiet", {}, `This browser can't show the player: ${error.message}`)));
  return () => {
    gone = true;
    attached.disconnect();
    restore?.();
    player?.dispose();
    root.remove();
  };
}

export default { render };
