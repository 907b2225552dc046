// What the theme leaves out for readers who use keys or hear the page: a table that scrolls takes the focus, buttons for
// copying and parts of the contents are no landmarks, and the empty corner of a table is no header.
const mend = () => {
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => (table.tabIndex = 0));
  document.querySelectorAll(".md-code__nav, .md-nav--secondary .md-nav").forEach((list) => {
    list.setAttribute("role", "none");
    list.removeAttribute("aria-label");
  });
  document.querySelectorAll("th:empty").forEach((corner) => corner.replaceWith(document.createElement("td")));
};
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
mend();
