// The command that takes a number apart, ready to be copied.
function explainCommand(stream, code, horizon) {
  const ahead = horizon === 1 ? "" : ` --horizon ${horizon}`;
  return `gdelphi explain --stream ${stream} --event ${code} --origin ${DATA.origin}${ahead}`;
}

function explains(country, code, horizon, number) {
  const command = explainCommand(country.stream, code, horizon);
  return h("button", { type: "button", class: "explains", title: `Explain: ${command}`, "aria-label": `${number}: show the command that explains it`, onclick: () => showCommand(command) }, number);
}

function showCommand(command) {
  const line = one(".explain-line");
  one("code", line).textContent = command;
  line.hidden = false;
  const range = document.createRange();
  range.selectNodeContents(one("code", line));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  if (navigator.clipboard) navigator.clipboard.writeText(command).then(() => { one(".copied", line).hidden = false; }, () => {});
}
