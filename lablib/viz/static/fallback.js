// Beside a live widget the picture for notebooks without a kernel would be a doublet: it is hidden as long as we live.

/** Hide the output above that shows an image of this alternative text; returns what brings it back. */
export function hidePicture(root, alt) {
  const picture = root.closest(".jp-OutputArea-child")?.previousElementSibling;
  if (picture?.querySelector("img")?.alt !== alt) return () => {};
  picture.style.display = "none";
  return () => picture.style.removeProperty("display");
}
