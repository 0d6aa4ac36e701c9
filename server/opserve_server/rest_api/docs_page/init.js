// Draws Swagger UI from the document of this service; no validator of a third party is asked.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#page",
  deepLinking: true,
  validatorUrl: null,
});
