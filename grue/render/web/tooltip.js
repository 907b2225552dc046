// Explanations of headings and footnotes: shown on hover and focus, hidden by Escape, hoverable themselves.

let addTooltip; // of an element with data-tip

function makeTooltips() {
  const tip = document.getElementById("tip");
  let owner = null;
  let leaving;

  const show = (element) => {
    clearTimeout(leaving);
    if (owner === element) return;
    owner = element;
    const lines = element.dataset.tip.split(" ").map((id) => document.getElementById(id)?.textContent.trim());
    tip.replaceChildren(
      ...lines.filter(Boolean).map((line) => Object.assign(document.createElement("p"), { textContent: line })),
    );
    tip.hidden = false;
    const place = element.getBoundingClientRect();
    const { width, height } = tip.getBoundingClientRect();
    const below = place.bottom + 6;
    tip.style.left = `${Math.max(8, Math.min(place.left, innerWidth - width - 8))}px`;
    tip.style.top = `${below + height < innerHeight ? below : Math.max(8, place.top - height - 6)}px`;
  };
  const hide = () => {
    tip.hidden = true;
    owner = null;
  };
  const later = () => {
    clearTimeout(leaving);
    leaving = setTimeout(hide, 120);
  };

  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("scroll", hide, true);
  tip.addEventListener("mouseenter", () => clearTimeout(leaving));
  tip.addEventListener("mouseleave", later);
  addTooltip = (element) => {
    element.addEventListener("mouseenter", () => show(element));
    element.addEventListener("mouseleave", later);
    element.addEventListener("focusin", () => show(element));
    element.addEventListener("focusout", later);
    if (element.tagName === "A") {
      element.setAttribute("aria-describedby", element.dataset.tip);
      element.addEventListener("click", (event) => event.preventDefault());
    }
  };
  all("[data-tip]").forEach(addTooltip);
}
