// What scrolls sideways can be reached with the keyboard. The theme wraps tables after this runs, and widths change with
// the window, so the boxes are looked at whenever the page or its size changes.
{
  const reach = () => {
    const wide = ".md-typeset__scrollwrap, .md-typeset pre > code, .md-typeset p:has(> img), .formula"
    for (const box of document.querySelectorAll(wide))
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
      else box.removeAttribute("tabindex")
  }
  new MutationObserver(reach).observe(document.body, { childList: true, subtree: true })
  new ResizeObserver(reach).observe(document.body)
  reach()
}
