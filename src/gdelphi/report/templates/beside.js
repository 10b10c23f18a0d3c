// A country that is chosen is opened in both frames. These are files of their own: only their address can be set.
for (const link of all("a[data-anchor]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    for (const frame of all(".frames iframe")) frame.src = frame.getAttribute("src").split("#")[0] + link.dataset.anchor;
    one(".frames").scrollIntoView();
  });
}
