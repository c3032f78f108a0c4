"""The style sheet of all course output: the notebook's own fonts and colours, with Okabe and Ito's for the marks."""

from __future__ import annotations

import re

_SHEET = """
.lab-card.lab-card {
  --lab-edge: var(--jp-border-color1, #9a9a9a);
  max-width: 46rem; margin: 2px 0 6px; padding: 1px 0 1px 14px; border-left: 3px solid var(--lab-edge);
  color: var(--jp-ui-font-color1, inherit); background: none;
  font: 13px/1.5 var(--jp-ui-font-family, system-ui, sans-serif);
}
.lab-right.lab-card { --lab-edge: #009e73; }
.lab-wrong.lab-card { --lab-edge: #d55e00; }
.lab-ask.lab-card { --lab-edge: #0072b2; }
.lab-card.lab-card p { margin: 0; padding: 0; font-size: 13px; }
.lab-card.lab-card .lab-title { font-size: 14px; font-weight: 600; }
.lab-card.lab-card .lab-heading { margin-top: 10px; font-weight: 600; }
.lab-card.lab-card .lab-note { margin-top: 6px; }
.lab-card.lab-card ul, .lab-card.lab-card ol { list-style: none; margin: 4px 0 0; padding: 0; }
.lab-card.lab-card td ul { margin: 0; }
.lab-card.lab-card li { margin: 0; padding: 0; }
.lab-card.lab-card .lab-mark { display: inline-block; width: 1.5em; font-weight: 700; }
.lab-card.lab-card code {
  font: 12px var(--jp-code-font-family, monospace); padding: 1px 3px; border-radius: 2px;
  color: var(--jp-ui-font-color1, inherit); background: var(--jp-layout-color2, rgba(128, 128, 128, 0.15));
}
.lab-card.lab-card dl {
  display: grid; grid-template-columns: max-content 1fr; gap: 3px 14px; margin: 5px 0 0; padding: 0;
}
.lab-card.lab-card dt {
  margin: 0; padding: 0; font-weight: 400; white-space: nowrap; color: var(--jp-ui-font-color2, inherit); float: none;
}
.lab-card.lab-card dd { margin: 0; padding: 0; min-width: 0; float: none; width: auto; }
.lab-card.lab-card pre {
  margin: 0; padding: 0; border: 0; white-space: pre-wrap; overflow-wrap: anywhere; background: none;
  font: 12px/20px var(--jp-code-font-family, monospace); color: var(--jp-ui-font-color1, inherit);
}
.lab-card.lab-card table { border-collapse: collapse; margin: 6px 0 2px; font-size: 13px; border: 0; }
.lab-card.lab-card :is(th, td) {
  padding: 3px 18px 3px 0; text-align: left; vertical-align: top; border: 0; max-width: none; white-space: normal;
  background: none; color: var(--jp-ui-font-color1, inherit);
}
.lab-card.lab-card tr { background: none; }
.lab-card.lab-card thead th { font-weight: 400; color: var(--jp-ui-font-color2, inherit); }
.lab-card.lab-card tbody :is(th, td) { border-top: 1px solid var(--jp-border-color2, rgba(128, 128, 128, 0.35)); }
.lab-card.lab-card tbody th { font-weight: 600; }
.lab-card .lab-option.lab-option {
  display: block; align-self: flex-start; max-width: 100%; margin: 2px; padding: 4px 12px; border-radius: 3px;
  white-space: normal; text-align: left; line-height: 1.5; font-size: 13px;
}
.lab-card .lab-feedback { padding-left: 12px !important; border-left: 3px solid #d55e00; }
.lab-card .lab-feedback.lab-right { border-left-color: #009e73; }
"""
STYLE = re.sub(r"\s+", " ", _SHEET).strip()
