for (const slider of document.querySelectorAll("input[type=range]")) {
  const shown = document.querySelector(`output[for=${slider.id}]`);
  slider.addEventListener("input", () => { shown.value = slider.value; });
  slider.addEventListener("change", () => { slider.form.requestSubmit(); });
}
