// One table of groups is shown at a time.
const choice = document.getElementById("grouping");
if (choice) {
  const show = () => document.querySelectorAll("[data-grouping]").forEach((each) => {
    each.hidden = each.dataset.grouping !== choice.value;
  });
  choice.addEventListener("change", show);
  show();
}
